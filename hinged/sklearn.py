"""The solvers as classifiers of scikit-learn: pip install "hinged[sklearn]"."""

from importlib import import_module
from typing import TYPE_CHECKING

from hinged.extras import needed

with needed("sklearn", "hinged.sklearn"):
    import sklearn.base  # noqa: F401  fails if scikit-learn is missing

if TYPE_CHECKING:
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


if not TYPE_CHECKING:  # with this function, a type checker would accept any name

    def __getattr__(name: str) -> object:
        """Import an estimator only when it is used, because the compiler and the solvers take long to import."""
        homes = (
            "hinged.local.classifier",  # the quickest to import
            "hinged.solvers.estimators.sklearn",
            "hinged.solvers.estimators.oneclass",
            "hinged.solvers.estimators.baselines",
            "hinged.local.loading",
            "hinged.local.onnx",
        )
        for home in homes if name in __all__ else ():
            module = import_module(home)
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
