"""Perceptrons, gradient descent and random features as scikit-learn estimators: what other machines are compared with.

They learn as the estimators of sklearn.py do, and have no bias and nothing to finish. Where nothing is bounded there is
no C.
"""

from __future__ import annotations

from dataclasses import dataclass

from hinged.solvers.core.parameters import one_of
from hinged.solvers.core.solver import POINTS_MAX
from hinged.solvers.estimators.classifier import BoundedClassifier
from hinged.solvers.estimators.sklearn import BudgetClassifier, EpochClassifier
from hinged.solvers.online.features import KERNELS_OF_FOGD


@dataclass(kw_only=True, eq=False, repr=False)
class PerceptronClassifier(EpochClassifier):
    """The kernel perceptron: a mistake becomes a point (Rosenblatt 1958). Further parameters: EpochClassifier.

    precision, points_max, when_full: as of DualClassifier.
    """

    solver = "perceptron"

    precision: str = "float32"
    points_max: int = POINTS_MAX
    when_full: str = "refuse"


class AveragedPerceptronClassifier(PerceptronClassifier):
    """The perceptron whose mean over all examples predicts (Freund and Schapire, Machine Learning 37, 1999)."""

    solver = "averaged-perceptron"


@dataclass(kw_only=True, eq=False, repr=False)
class OGDClassifier(PerceptronClassifier):
    """Online gradient descent on the hinge loss, NORMA (Kivinen, Smola and Williamson 2004).

    eta: learning rate. lam: regularisation, with eta lam < 1. Further parameters: PerceptronClassifier.
    """

    solver = "ogd"

    eta: float = 0.2
    lam: float = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetPerceptronClassifier(BudgetClassifier):
    """The perceptron that gives up the point it understands best (Crammer, Kandola and Singer, NIPS 16, 2004).

    beta: examples within this margin are learned. Further parameters: BudgetClassifier.
    """

    solver = "budget-perceptron"

    beta: float = 0.0


class RBPClassifier(BudgetClassifier):
    """The perceptron that gives up a random point (Cavallanti, Cesa-Bianchi and Gentile, Machine Learning 69, 2007)."""

    solver = "rbp"


class ForgetronClassifier(BudgetClassifier):
    """The perceptron that shrinks its points and gives up the oldest (Dekel, Shalev-Shwartz and Singer 2008)."""

    solver = "forgetron"


@dataclass(kw_only=True, eq=False, repr=False)
class ProjectronClassifier(BudgetClassifier):
    """The perceptron that projects what is nearly in the span of its points (Orabona, Keshet and Caputo 2009).

    novelty: length outside of the span, of 1, that makes a new point. Further parameters: BudgetClassifier.
    """

    solver = "projectron"

    novelty: float = 0.1


class ProjectronPlusPlusClassifier(ProjectronClassifier):
    """Projectron++, which learns from examples within the margin too."""

    solver = "projectron++"


@dataclass(kw_only=True, eq=False, repr=False)
class BPASClassifier(BudgetClassifier, BoundedClassifier):
    """Passive-aggressive learning on a budget (Wang and Vucetic, AISTATS 2010).

    C: the longest step. Further parameters: BudgetClassifier.
    """

    solver = "bpas"


@dataclass(kw_only=True, eq=False, repr=False)
class BOGDClassifier(BudgetClassifier, BoundedClassifier):
    """Online gradient descent on a budget (Zhao, Wang, Wu, Jin and Hoi, ICML 2012).

    eta, lam: as of OGDClassifier. C: bound of a coefficient. Further parameters: BudgetClassifier.
    """

    solver = "bogd"

    eta: float = 0.2
    lam: float = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class FOGDClassifier(EpochClassifier):
    """Online gradient descent over random Fourier features (Lu, Hoi, Wang, Zhao and Liu, JMLR 17, 2016).

    The kernel is "rbf" or "laplacian", and no points are kept. frequencies: drawn ones, two features each. eta:
    learning rate. precision: as of DualClassifier. Further parameters: EpochClassifier.
    """

    solver = "fogd"
    own_rules = {"kernel": one_of(*KERNELS_OF_FOGD)}  # noqa: RUF012  nobody writes into it

    frequencies: int = 1000
    eta: float = 0.2
    precision: str = "float32"


@dataclass(kw_only=True, eq=False, repr=False)
class NOGDClassifier(BudgetClassifier):
    """Online gradient descent over Nystroem features of the first `budget` points (the same paper).

    eta: learning rate. rank: features, None for a fifth of the budget. Further parameters: BudgetClassifier.
    """

    solver = "nogd"

    eta: float = 0.2
    rank: int | None = None
