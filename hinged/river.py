"""The solvers as a classifier of River: pip install "hinged[river]"."""

from hinged.extras import needed

with needed("river", "hinged.river"):
    from hinged.local.river import RiverClassifier as HingedClassifier

SVMClassifier = HingedClassifier
"""The name of the classifier in version 0.1."""

__all__ = ["HingedClassifier", "SVMClassifier"]
