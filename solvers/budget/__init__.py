"""Solvers on a budget of support vectors: BSGD and BSCA, and how a point is merged, projected or removed."""
