"""The solvers as classifiers of River: pip install "hinged[river]"."""

from hinged.extras import needed

with needed("river", "hinged.river"):
    from hinged.local.river import RiverClassifier as HingedClassifier
    from hinged.solvers.estimators.river import SVMClassifier

__all__ = ["HingedClassifier", "SVMClassifier"]
