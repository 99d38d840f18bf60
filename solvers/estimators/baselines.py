"""Perceptrons, gradient descent and random features as scikit-learn estimators: baselines for comparison.

They learn like the estimators in `sklearn.py`, but have no bias and no finishing step. Solvers whose coefficients have
no bound have no C.
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
    """The kernel perceptron: each misclassified example becomes a point.

    Rosenblatt, Psychological Review 65, 1958.

    See Also
    --------
    AveragedPerceptronClassifier : Predicts with the average.
    RBPClassifier : With a budget.
    """

    solver = "perceptron"

    precision: str = "float32"
    points_max: int = POINTS_MAX
    when_full: str = "refuse"


@dataclass(kw_only=True, eq=False, repr=False)
class AveragedPerceptronClassifier(PerceptronClassifier):
    """The averaged kernel perceptron, which predicts with the average over all examples.

    Freund and Schapire, Machine Learning 37, 1999.

    See Also
    --------
    PerceptronClassifier : Without averaging.
    """

    solver = "averaged-perceptron"


@dataclass(kw_only=True, eq=False, repr=False)
class OGDClassifier(PerceptronClassifier):
    """Online gradient descent on the hinge loss (NORMA).

    Kivinen, Smola and Williamson, IEEE Transactions on Signal Processing 52, 2004.

    Parameters
    ----------
    lam : float
        Regularisation, >= 0, with eta * lam < 1: each example multiplies all coefficients by 1 - eta * lam.

    See Also
    --------
    BOGDClassifier : With a budget.
    FOGDClassifier : Over random features.
    """

    solver = "ogd"

    eta: float = 0.2
    lam: float = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetPerceptronClassifier(BudgetClassifier):
    """A budget perceptron: it removes the point with the largest margin without its own term.

    Crammer, Kandola and Singer, NIPS 16, 2004.

    Parameters
    ----------
    beta : float
        Learn an example if y f(x) is at most this margin, >= 0; with 0, learn only misclassified examples.
    budget : int
        Maximum number of points; the least useful points are removed.

    See Also
    --------
    RBPClassifier : Removes a random point.
    """

    solver = "budget-perceptron"

    beta: float = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class RBPClassifier(BudgetClassifier):
    """A kernel perceptron with a budget, which removes a random point when the budget is full.

    Cavallanti, Cesa-Bianchi and Gentile, Machine Learning 69, 2007.

    Parameters
    ----------
    budget : int
        Maximum number of points; then each new point replaces a random point.

    See Also
    --------
    BudgetPerceptronClassifier : Removes the most redundant point.
    """

    solver = "rbp"


@dataclass(kw_only=True, eq=False, repr=False)
class ForgetronClassifier(BudgetClassifier):
    """The Forgetron: a kernel perceptron with a budget, which shrinks its coefficients and removes the oldest point.

    Dekel, Shalev-Shwartz and Singer, SIAM Journal on Computing 37, 2008 (the self-tuned version).

    Parameters
    ----------
    budget : int
        Maximum number of points; then each new point replaces the oldest point.

    See Also
    --------
    RBPClassifier : Removes a random point.
    """

    solver = "forgetron"


@dataclass(kw_only=True, eq=False, repr=False)
class ProjectronClassifier(BudgetClassifier):
    """The Projectron: a kernel perceptron that projects mistakes onto its points if they are near the points' span.

    Orabona, Keshet and Caputo, JMLR 10, 2009.

    Parameters
    ----------
    novelty : float
        An example becomes a point if more than this part of its length in feature space lies outside the span of the
        points; from 0.01, below 1 (the paper's eta).
    budget : int
        Maximum number of points, at most 2,000; later mistakes are projected onto their span.

    See Also
    --------
    ProjectronPlusPlusClassifier : Learns from small margins too.
    """

    solver = "projectron"

    novelty: float = 0.1


@dataclass(kw_only=True, eq=False, repr=False)
class ProjectronPlusPlusClassifier(ProjectronClassifier):
    """Projectron++, which also learns from examples within the margin.

    Orabona, Keshet and Caputo, JMLR 10, 2009.

    See Also
    --------
    ProjectronClassifier : Learns from mistakes only.
    """

    solver = "projectron++"


@dataclass(kw_only=True, eq=False, repr=False)
class BPASClassifier(BudgetClassifier, BoundedClassifier):
    """Passive-aggressive learning with a budget (BPA-S).

    Wang and Vucetic, AISTATS 2010.

    Parameters
    ----------
    C : float
        Upper bound of a step, > 0: the price of an error.
    budget : int
        Maximum number of points; the least useful points are removed.

    See Also
    --------
    BOGDClassifier : By gradient descent.
    """

    solver = "bpas"


@dataclass(kw_only=True, eq=False, repr=False)
class BOGDClassifier(BudgetClassifier, BoundedClassifier):
    """Online gradient descent with a budget, which removes a random point when the budget is full.

    Zhao, Wang, Wu, Jin and Hoi, ICML 2012 (uniform sampling).

    Parameters
    ----------
    C : float
        Upper bound of a coefficient, > 0 (the paper's gamma * eta).
    lam : float
        Regularisation, >= 0, with eta * lam < 1: each example multiplies all coefficients by 1 - eta * lam.
    budget : int
        Maximum number of points; then each new point replaces a random point.

    See Also
    --------
    OGDClassifier : Without a budget.
    """

    solver = "bogd"

    eta: float = 0.2
    lam: float = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class FOGDClassifier(EpochClassifier):
    """Online gradient descent on random Fourier features, without points.

    Lu, Hoi, Wang, Zhao and Liu, JMLR 17, 2016, algorithm 1.

    Parameters
    ----------
    kernel : {'rbf', 'laplacian'}
        Kernel: exp(-gamma |x - z|^2) or exp(-gamma |x - z|_1).
    degree : int
        Not used.
    coef0 : float
        Not used.
    precision : {'float32', 'float64'}
        Precision of the features.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, in the order of the columns of decision values.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X, if all are strings.
    solver_
    n_iter_

    See Also
    --------
    NOGDClassifier : On Nystroem features.
    OGDClassifier : Over a kernel expansion.
    """

    solver = "fogd"
    own_rules = {"kernel": one_of(*KERNELS_OF_FOGD)}  # noqa: RUF012  nobody writes into it

    frequencies: int = 1000
    eta: float = 0.2
    precision: str = "float32"


@dataclass(kw_only=True, eq=False, repr=False)
class NOGDClassifier(BudgetClassifier):
    """Online gradient descent on Nystroem features of the first `budget` points.

    Lu, Hoi, Wang, Zhao and Liu, JMLR 17, 2016.

    Parameters
    ----------
    budget : int
        Maximum number of points, at most 2,000; later examples are learned in their span.

    See Also
    --------
    FOGDClassifier : On random Fourier features.
    """

    solver = "nogd"

    eta: float = 0.2
    rank: int | None = None
