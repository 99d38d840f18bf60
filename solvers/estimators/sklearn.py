"""The solvers as scikit-learn estimators: pipelines, grid searches and partial_fit over online kernel machines.

    from sklearn.datasets import make_moons
    from hinged.solvers.estimators.sklearn import LASVMClassifier

    X, y = make_moons(2000, noise=0.2, random_state=0)
    model = LASVMClassifier(C=10.0, random_state=0).fit(X, y)  # one epoch and a finishing step
    model.predict(X), model.n_support_, model.solver_.certificate()

    stream = LASVMClassifier(C=10.0, gamma=1.0)
    for k in range(0, len(X), 100):  # learns at once, in order, and forgets the batch
        stream.partial_fit(X[k : k + 100], y[k : k + 100], classes=[0, 1])

`fit` makes `epochs` passes, shuffled by `random_state`, and finishes; `partial_fit` learns a batch in the order in
which it comes and does nothing else, so that a stream in pieces is the stream. Either may go on from the other's end.

Several classes are one-versus-rest over one set of points. With K = 1 column for two classes, else one a class,

    decision_function(X) = kernel(X, support_vectors_) @ dual_coef_.T + intercept_,

of shape (n,) for two classes, where positive means classes_[1], else (n, K), where the largest wins. A fitted
estimator pickles and copies as its solver's state, and a copy goes on learning to the bit.

Needs scikit-learn: pip install hinged[sklearn].
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from hinged.solvers.core.kernels import KERNELS, Kernel, make_kernel
from hinged.solvers.core.points import rows_of
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import POINTS_MAX, Solver
from hinged.solvers.estimators.base import Learner

try:
    from scipy import sparse
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.class_weight import compute_class_weight
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("hinged.sklearn needs scikit-learn 1.6 or newer: pip install 'hinged[sklearn]'") from error

Array = np.ndarray[Any, Any]

FLOATS = (np.float64, np.float32)

ESTIMATOR_S = frozenset(
    {
        "kernel",
        "gamma",
        "degree",
        "coef0",
        "class_weight",
        "random_state",
        "cache_size",
        "epochs",
        "shuffle",
        "finish",
        "algorithm",
    }
)
"""Parameters that an estimator uses itself; the solver takes all others, by the same names."""


@dataclass(kw_only=True, eq=False, repr=False)
class SolverClassifier(ClassifierMixin, BaseEstimator):
    """What all estimators have in common; each names its solver, and its fields are its parameters.

    C: upper bound of a coefficient. kernel: "linear", "poly" (or "polynomial"), "rbf" or "laplacian". gamma: a number,
    "scale" (1 / (features * variance of X); in partial_fit of the first batch) or "auto" (1 / features). class_weight:
    factors of C by class, or "balanced" (not in partial_fit). random_state: of the shuffling, and of the solver's own
    draws.

    Fitted: classes_, n_features_in_, feature_names_in_ (where X has string names), and solver_, the solver itself.
    """

    solver: ClassVar[str]

    C: float = 1.0
    kernel: str = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    class_weight: dict[Any, float] | str | None = None
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    # -- learning -------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Learn X (n, features), dense or sparse, with labels y (n,), from the beginning."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS)
        check_classification_targets(y)
        classes, numbers = np.unique(y, return_inverse=True)
        random = check_random_state(self.random_state)
        learner = self._new_learner(X, y, classes, random, X.shape[0])
        if not self._fit(learner, _rows(learner, X), numbers, random):
            warnings.warn(
                f"{type(self).__name__} did not reach its tolerance: scale the features, or choose a smaller C",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.classes_, self._learner, self._sparse = classes, learner, sparse.issparse(X)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn one batch more, in order. classes: all labels that may ever come; needed in the first call."""
        first = not self.__sklearn_is_fitted__()
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit")
        if classes is not None:
            classes = unique_labels(classes)
            if not first and not np.array_equal(classes, self.classes_):
                raise ValueError(f"classes must be those of the first call, {self.classes_}, got {classes}")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' is not supported for partial_fit. Pass the weights of "
                "compute_class_weight('balanced', classes=classes, y=y) as a dict instead"
            )
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS, reset=first)
        check_classification_targets(y)
        classes = classes if first else self.classes_
        unknown = np.setdiff1d(y, classes)
        if unknown.size:
            raise ValueError(f"y must hold labels of classes, {classes}, got {unknown}")
        learner = self._new_learner(X, y, classes, check_random_state(self.random_state)) if first else self._learner
        learner.learn(_rows(learner, X), np.searchsorted(classes, y))
        if first:
            self.classes_, self._learner, self._sparse = classes, learner, sparse.issparse(X)
        return self

    def _fit(self, learner: Learner, rows: Rows, numbers: Array, random: np.random.RandomState) -> bool:
        """Learn a whole data set, all at once; returns whether it ended at the optimum, where there is one."""
        del random
        learner.learn(rows, numbers)
        return learner.solver.finish().converged

    def _new_learner(
        self, X: Any, y: Array, classes: Array, random: np.random.RandomState, examples: int | None = None
    ) -> Learner:
        learner = Learner(
            self._solver_name(),
            self._kernel(X),
            X.shape[1],
            seed=int(random.randint(2**31 - 1)),
            **self._solver_parameters(examples),
        )
        for weight in compute_class_weight(self.class_weight, classes=classes, y=y):
            learner.solver.add_class(float(weight))
        return learner

    def _solver_name(self) -> str:
        return self.solver

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        """What the solver takes; examples: how many there are in all, None for a stream."""
        del examples
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ESTIMATOR_S}

    def _kernel(self, X: Any) -> Kernel:
        name = "polynomial" if self.kernel == "poly" else self.kernel
        if name not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)} or poly, got {self.kernel!r}")
        gamma = self.gamma
        if isinstance(gamma, str):
            if gamma not in {"scale", "auto"}:
                raise ValueError(f"gamma must be a number, 'scale' or 'auto', got {gamma!r}")
            variance = _variance(X) if gamma == "scale" else 1.0
            gamma = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        return make_kernel(name, gamma, self.degree, self.coef0)

    # -- reading --------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Decision values: (n,) for two classes, positive for classes_[1], else (n, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        scores = self.solver_.decision(_rows(self._learner, X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Labels (n,)."""
        scores = self.decision_function(X)
        if len(self.classes_) <= 2:
            numbers = np.minimum(scores > 0, len(self.classes_) - 1).astype(np.intp)
        else:
            numbers = scores.argmax(axis=1)
        labels: Array = self.classes_[numbers]
        return labels

    @property
    def solver_(self) -> Solver:
        """The solver, with its certificate and its state; solvers/core/solver.py."""
        check_is_fitted(self)
        return self._learner.solver

    @property
    def support_vectors_(self) -> Any:
        """The points with a coefficient (SV, features), the oldest first; a CSR array where X was sparse."""
        view, slots = self._support()
        indptr, indices, values = rows_of(view.points, slots)
        points = sparse.csr_array((values, indices, indptr), shape=(slots.size, view.dim))
        return points if self._sparse else points.toarray()

    @property
    def dual_coef_(self) -> Array:
        """Signed coefficients (K, SV), positive for points of the positive class."""
        view, slots = self._support()
        coefficients: Array = view.alpha[:, slots]
        return coefficients

    @property
    def intercept_(self) -> Array:
        """Bias (K,), 0 for solvers without one."""
        bias: Array = self._support()[0].b
        return bias

    @property
    def n_support_(self) -> Array:
        """Support vectors of each class (classes,)."""
        slots = self._support()[1]
        solver: Any = self.solver_
        return np.bincount(solver.machine.class_of[slots], minlength=len(self.classes_)).astype(np.int32)

    def _support(self) -> tuple[Any, Array]:
        view: Any = self.solver_.view()
        return view, np.flatnonzero((view.alpha != 0).any(axis=0))


@dataclass(kw_only=True, eq=False, repr=False)
class DualClassifier(SolverClassifier):
    """Solvers that keep gradients, take all examples at once, and optimise. Further parameters: SolverClassifier.

    tol: the largest violation that stays. precision: "float32" or "float64", of points and kernel values. points_max:
    points that may be held. when_full: there "refuse" to learn, or "remove" the least useful point. cache_size: memory
    of cached kernel rows, MB.
    """

    tol: float = 1e-3
    precision: str = "float32"
    points_max: int = POINTS_MAX
    when_full: str = "refuse"
    cache_size: float = 256

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        return {**super()._solver_parameters(examples), "cache_bytes": int(self.cache_size * 2**20)}


class SMOClassifier(DualClassifier):
    """The batch support vector machine, with a bias; partial_fit solves again over all that came."""

    solver = "smo"


@dataclass(kw_only=True, eq=False, repr=False)
class EpochClassifier(SolverClassifier):
    """Solvers that learn one example at a time. Further parameters: SolverClassifier.

    epochs: passes of `fit` over the data. shuffle: whether each is in a random order of its own.
    """

    epochs: int = 1
    shuffle: bool = True

    batch: ClassVar[int] = 1024  # examples that `fit` hands over at a time

    def _fit(self, learner: Learner, rows: Rows, numbers: Array, random: np.random.RandomState) -> bool:
        if not self.epochs >= 1:
            raise ValueError(f"epochs must be an integer >= 1, got {self.epochs}")
        for epoch in range(self.epochs):
            order = random.permutation(len(rows)) if self.shuffle else np.arange(len(rows))
            learner.learn_epoch(rows, numbers, order, self._batch(len(rows)), again=epoch > 0)
        return self._finish(learner)

    def _batch(self, examples: int) -> int:
        return min(self.batch, examples)

    def _finish(self, learner: Learner) -> bool:
        return learner.solver.finish().converged


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineClassifier(EpochClassifier, DualClassifier):
    """Online solvers that keep gradients. Further parameters: EpochClassifier, DualClassifier.

    finish: whether `fit` ends by optimising over the points held.
    """

    finish: bool = True

    def _finish(self, learner: Learner) -> bool:
        return super()._finish(learner) if self.finish else True


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMClassifier(OnlineClassifier):
    """LASVM, with a bias (Bordes, Ertekin, Weston and Bottou, JMLR 6, 2005). Further parameters: OnlineClassifier.

    delta_max: repeat REPROCESS at each example until no pair violates by more. second_order: choose the partner in
    REPROCESS by the gain that it promises. seed_max: examples kept while only one class has come.
    """

    solver = "lasvm"

    delta_max: float | None = None
    second_order: bool = False
    seed_max: int = 1000


class FullSVMClassifier(OnlineClassifier):
    """FULL: paced by the duality gap, keeps all points (Ertekin, Bottou and Giles, TPAMI 33, 2011)."""

    solver = "full"


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMGClassifier(OnlineClassifier):
    """LASVM-G: FULL, but points without a coefficient are cleaned away. Further parameters: OnlineClassifier.

    idle_max: points without a coefficient that CLEAN leaves. clean_every: examples between two CLEANs.
    """

    solver = "lasvm-g"

    idle_max: int = 1000
    clean_every: int = 1000


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMNCClassifier(LASVMGClassifier):
    """LASVM-NC: with the ramp loss, which gives outliers up. Further parameters: LASVMGClassifier.

    ramp_s: margin below which an example is an outlier, < 1. ramp_start: support vectors that a class must have before
    the ramp counts for it.
    """

    solver = "lasvm-nc"

    ramp_s: float = -1.0
    ramp_start: int = 100


class LASVMIClassifier(LASVMNCClassifier):
    """LASVM-I: LASVM-G behind the ramp, which passes outliers and what lies beyond the margin over when they come."""

    solver = "lasvm-i"


@dataclass(kw_only=True, eq=False, repr=False)
class TrackingSVMClassifier(OnlineClassifier):
    """Averaged tracking SVMs (Usunier, Bordes and Bottou, AISTATS 2010). Further parameters: OnlineClassifier.

    algorithm: 1 or 2 of the paper, "cached" (section 5.2) or "batch" (section 6). K: updates at each example; of
    "batch", rounds at most at each batch. With `finish` the optimum predicts, else the average.
    """

    ALGORITHMS: ClassVar[tuple[int | str, ...]] = (1, 2, "cached", "batch")

    algorithm: int | str = 2
    K: int = 10

    def _solver_name(self) -> str:
        if self.algorithm not in self.ALGORITHMS:
            raise ValueError(f"algorithm must be one of {', '.join(map(str, self.ALGORITHMS))}, got {self.algorithm!r}")
        return f"tracking-{self.algorithm}"

    def _batch(self, examples: int) -> int:
        return examples if self.algorithm == "batch" else super()._batch(examples)


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetClassifier(EpochClassifier):
    """Solvers that hold at most `budget` points, without a bias. Further parameters: EpochClassifier.

    maintenance: what makes way for one point more: "merge" (rbf alone), "project" or "remove"; None for "merge" with
    rbf, else "project". merging: finds the place of a merged point by "table" or "golden" section. averaging: examples
    that the average of the coefficients spans that predicts; None: they predict themselves. precision: "float32" or
    "float64", of points and kernel values.
    """

    budget: int = 500
    maintenance: str | None = None
    merging: str = "table"
    averaging: int | None = 1000
    precision: str = "float32"


@dataclass(kw_only=True, eq=False, repr=False)
class BSCAClassifier(BudgetClassifier):
    """Budgeted stochastic coordinate ascent (Qaadan, Schueler and Glasmachers, ICPRAM 2019).

    step_max: the longest step at first, in units of 1 / k(x, x), or None. step_decay: examples after which it is
    1 / sqrt(2) of that. step_least: what it shrinks to. extra_steps: further steps at each example, on the last
    `reservoir` ones. remembered: examples whose coefficient is known again in a further epoch. Further parameters:
    BudgetClassifier.
    """

    solver = "bsca"

    step_max: float | None = 2.0
    step_decay: float = 1000.0
    step_least: float = 0.25
    extra_steps: int = 0
    reservoir: int = 1000
    remembered: int = 2**17


@dataclass(kw_only=True, eq=False, repr=False)
class BSGDClassifier(BudgetClassifier):
    """Budgeted stochastic gradient descent (Wang, Crammer and Vucetic, JMLR 13, 2012).

    Its lambda is `regularization`, or 1 / (C examples) where that is None. examples: None for the number of those that
    `fit` is given, and 10,000 in partial_fit. Further parameters: BudgetClassifier.
    """

    solver = "bsgd"

    regularization: float | None = None
    examples: int | None = None

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        return {**super()._solver_parameters(examples), "examples": self.examples or examples or 10_000}


@dataclass(kw_only=True, eq=False, repr=False)
class ExactSVMClassifier(SolverClassifier):
    """The optimum after every example, by exact increments in float64 (Diehl and Cauwenberghs, IJCNN 2003).

    points_max, when_full, cache_size: as of DualClassifier. solver_ can also unlearn examples, by their row in X, and
    gives exact leave-one-out errors. Further parameters: SolverClassifier.
    """

    solver = "exact"

    points_max: int = POINTS_MAX
    when_full: str = "refuse"
    cache_size: float = 256

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        return {**super()._solver_parameters(examples), "cache_bytes": int(self.cache_size * 2**20)}


def _rows(learner: Learner, X: Any) -> Rows:
    if not sparse.issparse(X):
        return learner.dense_rows(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return learner.sparse_rows(X.indptr, X.indices, X.data)


def _variance(X: Any) -> float:
    """Of all entries, by the same sums whether X is dense or sparse."""
    size = X.shape[0] * X.shape[1]
    values = (X.data if sparse.issparse(X) else X[X != 0]).astype(np.float64)
    mean = values.sum() / size
    return float((np.square(values - mean).sum() + (size - values.size) * mean * mean) / size)
