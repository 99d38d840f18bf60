"""The solvers as classifiers of scikit-learn: pip install "hinged[sklearn]"."""

from hinged.extras import needed

with needed("sklearn", "hinged.sklearn"):
    from hinged.solvers.estimators.sklearn import (
        BSCAClassifier,
        BSGDClassifier,
        ExactSVMClassifier,
        FullSVMClassifier,
        LASVMClassifier,
        LASVMGClassifier,
        LASVMIClassifier,
        LASVMNCClassifier,
        SMOClassifier,
        TrackingSVMClassifier,
    )

__all__ = [
    "BSCAClassifier",
    "BSGDClassifier",
    "ExactSVMClassifier",
    "FullSVMClassifier",
    "LASVMClassifier",
    "LASVMGClassifier",
    "LASVMIClassifier",
    "LASVMNCClassifier",
    "SMOClassifier",
    "TrackingSVMClassifier",
]
