"""BSGD and BSCA, solvers with at most `budget` support vectors, and how they merge, project or remove points."""
