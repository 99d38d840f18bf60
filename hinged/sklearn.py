"""The solvers as classifiers of scikit-learn: pip install "hinged[sklearn]"."""

from hinged.extras import needed

with needed("sklearn", "hinged.sklearn"):
    from hinged.local.classifier import HingedClassifier
    from hinged.local.loading import load
    from hinged.local.onnx import to_onnx
    from hinged.solvers.estimators.baselines import (
        AveragedPerceptronClassifier,
        BOGDClassifier,
        BPASClassifier,
        BudgetPerceptronClassifier,
        FOGDClassifier,
        ForgetronClassifier,
        NOGDClassifier,
        OGDClassifier,
        PerceptronClassifier,
        ProjectronClassifier,
        ProjectronPlusPlusClassifier,
        RBPClassifier,
    )
    from hinged.solvers.estimators.oneclass import OneClassClassifier
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
    "AveragedPerceptronClassifier",
    "BOGDClassifier",
    "BPASClassifier",
    "BSCAClassifier",
    "BSGDClassifier",
    "BudgetPerceptronClassifier",
    "ExactSVMClassifier",
    "FOGDClassifier",
    "ForgetronClassifier",
    "FullSVMClassifier",
    "HingedClassifier",
    "LASVMClassifier",
    "LASVMGClassifier",
    "LASVMIClassifier",
    "LASVMNCClassifier",
    "NOGDClassifier",
    "OGDClassifier",
    "OneClassClassifier",
    "PerceptronClassifier",
    "ProjectronClassifier",
    "ProjectronPlusPlusClassifier",
    "RBPClassifier",
    "SMOClassifier",
    "TrackingSVMClassifier",
    "load",
    "to_onnx",
]
