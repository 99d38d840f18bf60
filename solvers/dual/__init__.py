"""Solvers of the dual problem, with a gradient for each point: LASVM and its kin, SMO, tracking, exact paths."""
