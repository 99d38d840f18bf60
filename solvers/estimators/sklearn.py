"""The solvers as scikit-learn estimators, for pipelines, grid searches and `partial_fit`. Needs hinged[sklearn].

`fit` makes `epochs` passes over the data, shuffled by `random_state`, and then finishes. `partial_fit` only learns a
batch in its order, so that a stream in pieces gives the same model as the whole stream. Each of the two methods may
continue from the result of the other.

Several classes are one-versus-rest over one set of points. With K = 1 column for two classes, else one column per
class,

    decision_function(X) = kernel(X, support_vectors_) @ dual_coef_.T + intercept_,

For two classes the shape is (n,), and positive means classes_[1]. Otherwise the shape is (n, K), and the largest value
wins. A pickle or copy of a fitted estimator contains its solver's state. A copy then learns exactly as the original, to
the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hinged.solvers.budget.budget import BSGD
from hinged.solvers.core.parameters import NONE, one_of, rules_of
from hinged.solvers.core.reports import FinishRound, WholeFinish
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import POINTS_MAX
from hinged.solvers.estimators.base import Learner
from hinged.solvers.estimators.classifier import Array, BoundedClassifier, SolverClassifier, tell
from hinged.solvers.estimators.parameters import POINTS, RULES


@dataclass(kw_only=True, eq=False, repr=False)
class DualClassifier(BoundedClassifier):
    """The base of solvers that store gradients, learn a whole data set at once, and optimise.

    Parameters
    ----------
    tol : float
        Largest violation of the optimality conditions that may remain, > 0.
    """

    tol: float = 1e-3
    precision: str = "float32"
    points_max: int = POINTS_MAX
    when_full: str = "refuse"
    cache_size: float = 256


@dataclass(kw_only=True, eq=False, repr=False)
class SMOClassifier(DualClassifier):
    """The batch support vector machine with a bias, solved by SMO.

    Bordes, Ertekin, Weston and Bottou, JMLR 6, 2005, section 3.1, with second-order selection (Fan, Chen and Lin, JMLR
    6, 2005) and shrinking. `partial_fit` solves the problem of all examples so far again.

    See Also
    --------
    LASVMClassifier : The online machine, with nearly the same optimum.
    ExactSVMClassifier : The exact optimum after every example.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from hinged.sklearn import SMOClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = SMOClassifier(C=10.0).fit(X[:300], y[:300])
    >>> round(model.score(X[300:], y[300:]), 2)
    0.97
    >>> model.solver_.converged
    True
    """

    solver = "smo"

    @property
    def one_by_one(self) -> bool:
        """Whether each example is predicted before it is learned: no, because all are solved together."""
        return False


@dataclass(kw_only=True, eq=False, repr=False)
class EpochClassifier(SolverClassifier):
    """The base of solvers that learn one example at a time.

    Parameters
    ----------
    epochs : int
        Number of passes of `fit` over the data.
    shuffle : bool
        Whether `fit` shuffles the data before each pass.
    """

    epochs: int = 1
    shuffle: bool = True

    batch: ClassVar[int] = 1024  # number of examples in a batch of `fit`

    def _fit(
        self,
        learner: Learner,
        rows: Rows,
        numbers: Array,
        random: np.random.RandomState,
        first: int = 0,
        *,
        weights: Array | None = None,
        again: bool = False,
    ) -> WholeFinish:
        for epoch in range(self.epochs):
            order = random.permutation(len(rows)) if self.shuffle else np.arange(len(rows))
            batch, known = self._batch(len(rows)), again or epoch > 0
            learner.learn_epoch(rows, numbers, order, batch, weights=weights, first=first, again=known)
            self._tell(f"pass {epoch + 1} of {self.epochs}", learner)
        return self._finish(learner, rows, numbers, first, weights)

    def _batch(self, examples: int) -> int:
        return min(self.batch, examples)

    def _finish(
        self,
        learner: Learner,
        rows: Rows,  # noqa: ARG002  for solvers that can bring back dropped examples
        numbers: Array,  # noqa: ARG002
        first: int,  # noqa: ARG002
        weights: Array | None,  # noqa: ARG002
    ) -> WholeFinish:
        """Finish over the points, after rows with these numbers of classes were learned, numbered from `first` on."""
        finish = WholeFinish(*learner.solver.finish(), missing=0)
        self._tell("finished", learner)
        return finish


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineClassifier(EpochClassifier, DualClassifier):
    """The base of online solvers that store gradients.

    Parameters
    ----------
    finish : bool or 'points'
        Whether `fit` ends with an optimisation. With 'points' it is over the points that the solver holds. True is the
        same, except that LASVM also takes in examples of X that it dropped, until it is at the optimum of X.
    """

    finish: bool | str = True

    def _finish(self, learner: Learner, rows: Rows, numbers: Array, first: int, weights: Array | None) -> WholeFinish:
        if not self.finish:
            return WholeFinish(0, converged=True, missing=0)
        if self.finish == POINTS:
            return super()._finish(learner, rows, numbers, first, weights)
        finish = learner.finish_over(rows, numbers, weights, first, self._told)
        self._tell("finished", learner)
        return finish

    def _told(self, found: FinishRound) -> None:
        """Print a round of finishing over all examples, if `verbose` is set."""
        if self.verbose:
            tell("finishing", found.points, found.gap, found.violating)


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMClassifier(OnlineClassifier):
    """LASVM, an online kernel SVM with a bias.

    Bordes, Ertekin, Weston and Bottou, JMLR 6, 2005, section 3.2. The paper's own settings are delta_min=0,
    delta_max=None and idle_max=0. With C='auto' the attributes describe the leading machine.

    Parameters
    ----------
    C : float or 'auto'
        Upper bound of a dual coefficient, > 0: the price of an error. 'auto' runs a race between
        machines with different C and gamma; predictions use the mean of the most accurate machines.
    delta_min : float or None
        Largest violation that the first epoch leaves to later epochs and to finishing. None: 0.5 with three or more
        classes, else 0, which is the paper's value.

    See Also
    --------
    LASVMGClassifier : Without a bias, paced by the duality gap.
    SMOClassifier : The batch machine.
    BSCAClassifier : With a budget of points.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from hinged.sklearn import LASVMClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = LASVMClassifier(C=10.0, random_state=0).fit(X[:300], y[:300])
    >>> round(model.score(X[300:], y[300:]), 2)
    0.97

    >>> stream = LASVMClassifier(C=10.0, gamma=1.0)
    >>> for k in range(0, 300, 100):
    ...     _ = stream.partial_fit(X[k : k + 100], y[k : k + 100], classes=[0, 1])
    >>> stream.solver_.live <= 300
    True
    """

    solver = "lasvm"
    own_rules = {"C": RULES["C"] | one_of("auto")}  # noqa: RUF012  nobody writes into it

    C: Any = 1.0
    delta_min: float | None = None
    delta_max: float | None = 2.0
    second_order: bool = False
    idle_max: int = 2000
    seed_max: int = 1000

    def _solver_name(self) -> str:
        return "auto" if self._races else self.solver

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        parameters = super()._solver_parameters(examples)
        return {name: value for name, value in parameters.items() if not (self._races and name == "C")}

    @property
    def _races(self) -> bool:
        return isinstance(self.C, str) and self.C == "auto"

    @property
    def arms_(self) -> list[dict[str, Any]] | None:
        """The remaining arms of the race and which arm leads, with C='auto'; else None."""
        return self.solver_.arms_in_figures()


@dataclass(kw_only=True, eq=False, repr=False)
class FullSVMClassifier(OnlineClassifier):
    """FULL, an online kernel SVM without a bias, paced by the duality gap, that keeps all points.

    Ertekin, Bottou and Giles, TPAMI 33, 2011, section 4.

    Parameters
    ----------
    delta_min : float or None
        Largest violation of a point that the first epoch leaves to later epochs and to finishing. None: 0.25 with
        three or more classes, else 0, which is the paper's value.

    See Also
    --------
    LASVMGClassifier : Removes points without a coefficient from time to time.
    """

    solver = "full"

    delta_min: float | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMGClassifier(FullSVMClassifier):
    """LASVM-G, an online kernel SVM without a bias, paced by the duality gap.

    Ertekin, Bottou and Giles, TPAMI 33, 2011, section 4. Every `clean_every` examples CLEAN removes points without a
    coefficient.

    Parameters
    ----------
    idle_max : int or None
        Number of points without a coefficient that CLEAN keeps (the paper's m). None: all.

    See Also
    --------
    LASVMNCClassifier : The same algorithm with the ramp loss.
    FullSVMClassifier : Keeps all points.
    """

    solver = "lasvm-g"

    idle_max: int = 1000
    clean_every: int = 1000


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMNCClassifier(LASVMGClassifier):
    """LASVM-NC, an online kernel SVM with the ramp loss, which disregards outliers.

    Ertekin, Bottou and Giles, TPAMI 33, 2011, section 5. This solver is for noisy labels: it ignores an example far on
    the wrong side.

    Parameters
    ----------
    ramp_s : float
        Margin y f(x) below which an example is an outlier, < 1 (section 5: s).

    See Also
    --------
    LASVMGClassifier : The same algorithm with the hinge loss.
    LASVMIClassifier : Skips outliers when they arrive.
    """

    solver = "lasvm-nc"

    ramp_s: float = -1.0
    ramp_start: int = 100


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMIClassifier(LASVMNCClassifier):
    """LASVM-I: LASVM-G that skips new outliers and new examples beyond the margin.

    Ertekin, Bottou and Giles, TPAMI 33, 2011, section 6.

    See Also
    --------
    LASVMNCClassifier : With the ramp loss instead of the filter.
    """

    solver = "lasvm-i"


@dataclass(kw_only=True, eq=False, repr=False)
class TrackingSVMClassifier(OnlineClassifier):
    """Averaged tracking SVM without a bias: an approximate optimum after every example.

    Usunier, Bordes and Bottou, AISTATS 2010. With `finish`, predictions after `fit` use the optimum; otherwise they use
    the average. The paper's own settings are draws=1 and delta_max=None.

    Parameters
    ----------
    algorithm : {1, 2, 'cached', 'batch'}
        Algorithm 1 or 2 of the paper, its cached variant (section 5.2), or its batch counterpart (section 6).
    K : int
        Updates per example; with algorithm='batch', maximum number of rounds per batch.
    delta_max : float or None
        Before the averaged updates, points are updated until no drawn point violates by more than this. None: no such
        updates, as in the paper.

    See Also
    --------
    LASVMClassifier : With a bias, without averaging.
    """

    solver = "tracking-2"
    ALGORITHMS: ClassVar[tuple[int | str, ...]] = (1, 2, "cached", "batch")
    own_rules = {"algorithm": one_of(*ALGORITHMS)}  # noqa: RUF012  nobody writes into it

    algorithm: int | str = 2
    K: int = 10
    draws: int = 100
    delta_max: float | None = 1.0

    def _solver_name(self) -> str:
        return f"tracking-{self.algorithm}"

    @property
    def one_by_one(self) -> bool:
        """Whether each example is predicted before it is learned: yes, except with the algorithm "batch"."""
        return self.algorithm != "batch"

    def _batch(self, examples: int) -> int:
        return examples if self.algorithm == "batch" else super()._batch(examples)


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetClassifier(EpochClassifier):
    """The base of solvers with at most `budget` points and no bias."""

    budget: int = 500
    precision: str = "float32"


@dataclass(kw_only=True, eq=False, repr=False)
class MergingClassifier(BudgetClassifier, BoundedClassifier):
    """The base of solvers that merge points.

    Parameters
    ----------
    maintenance : {'merge', 'project', 'remove'} or None
        How the number of points is reduced: two points merge (rbf only), or a point is projected onto the rest, or
        removed. None: 'merge' with rbf, else 'project'.
    averaging : int or None
        Number of examples in the running average of the coefficients, which predictions use. None: predictions use the
        current coefficients, as in the paper.
    """

    maintenance: str | None = None
    merging: str = "table"
    averaging: int | None = 1000
    nearest: int | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class BSCAClassifier(MergingClassifier):
    """BSCA, budgeted stochastic coordinate ascent: an SVM with at most `budget` points and no bias.

    Qaadan, Schueler and Glasmachers, ICPRAM 2019, algorithm 2. With averaging=None and step_max=None it is the paper's
    plain form.

    See Also
    --------
    BSGDClassifier : By gradient descent on the primal.
    """

    solver = "bsca"

    step_max: float | None = 2.0
    step_decay: float = 1000.0
    step_least: float = 0.25
    extra_steps: int = 0
    reservoir: int = 1000
    remembered: int = 2**17


@dataclass(kw_only=True, eq=False, repr=False)
class BSGDClassifier(MergingClassifier):
    """BSGD, budgeted stochastic gradient descent: an SVM with at most `budget` points and no bias.

    Wang, Crammer and Vucetic, JMLR 13, 2012 (Pegasos on a budget).

    Parameters
    ----------
    C : float
        Price of an error, > 0, through lambda = 1 / (C n); without effect if regularization is given.
    regularization : float or None
        lambda of the objective, > 0. None: 1 / (C n).
    examples : int or None
        n in lambda = 1 / (C n). None: the number of examples in `fit`, 10,000 in `partial_fit`.

    See Also
    --------
    BSCAClassifier : By coordinate ascent on the dual.
    """

    solver = "bsgd"
    own_rules = {"examples": NONE | rules_of(BSGD)["examples"]}  # noqa: RUF012  nobody writes into it

    regularization: float | None = None
    examples: int | None = None

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        return {**super()._solver_parameters(examples), "examples": self.examples or examples or 10_000}


@dataclass(kw_only=True, eq=False, repr=False)
class ExactSVMClassifier(BoundedClassifier):
    """An exact SVM with a bias: it reaches the optimum after every example, in float64.

    Diehl and Cauwenberghs, IJCNN 2003. ``solver_`` can also unlearn examples, by their row in X, and has exact
    leave-one-out errors. `p_values` is full conformal prediction.

    See Also
    --------
    SMOClassifier : The same optimum in batches, in float32.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from hinged.sklearn import ExactSVMClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = ExactSVMClassifier(C=10.0).fit(X[:300], y[:300])
    >>> round(model.score(X[300:], y[300:]), 2)
    0.97
    >>> model.solver_.leave_one_out_error() < 0.1
    True
    """

    solver = "exact"

    points_max: int = POINTS_MAX
    when_full: str = "refuse"
    cache_size: float = 256

    def p_values(self, X: Any) -> Array:
        """Compute p-values of the claims that an example is of a class: full conformal prediction.

        For each class, the machine learns the example as one of the class, and unlearns it again. The p-value is the
        share of the examples of the class, including the new example, that are at least as strange. Of two examples,
        the stranger one lies further inside the margin or beyond it. The set of all classes with a p-value above e
        misses the true class with a probability of at most e, if the example is exchangeable with the examples of its
        class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n, n_classes)
            p-values, in the order of ``classes_``, from 1 / (examples held of the class + 1) to 1.

        Notes
        -----
        Cherubin, Chatzikokolakis and Jaggi, ICML 2021. A machine that is fitted again, with each example under each
        label, gives the same p-values. The machine is the same afterwards, to the bit.
        """
        rows = self._rows(X)
        machine: Any = self.solver_
        found: Array = machine.p_values(rows)
        return found
