"""Solvers of the dual problem, which keep a gradient per point: LASVM and its variants, SMO, tracking, exact paths."""
