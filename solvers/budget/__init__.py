"""Solvers with at most `budget` support vectors, BSGD and BSCA: how points are merged, projected or removed."""
