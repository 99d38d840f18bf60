"""The solvers as estimators for scikit-learn and River, and their files."""
