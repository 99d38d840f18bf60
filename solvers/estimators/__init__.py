"""The solvers as estimators of other libraries."""
