"""The solvers as a classifier of River: pip install "hinged[river]"."""

from hinged.extras import needed

with needed("river", "hinged.river"):
    from hinged.solvers.estimators.river import SVMClassifier

__all__ = ["SVMClassifier"]
