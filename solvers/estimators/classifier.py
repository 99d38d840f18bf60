"""What all scikit-learn estimators of the solvers have in common: labels, kernels, fitting and what was fitted."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from numbers import Real
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from hinged.solvers.core.kernels import KERNELS, Kernel, make_kernel
from hinged.solvers.core.points import rows_of
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import Solver, class_numbers
from hinged.solvers.estimators.base import Learner
from hinged.solvers.estimators.compiling import told
from hinged.solvers.estimators.probabilities import inverse_temperature, probabilities
from hinged.solvers.estimators.scaling import AUTO, CSR, DENSE, SPARSE, Scale, found
from hinged.solvers.race.race import Race

Array = np.ndarray[Any, Any]

FLOATS = (np.float64, np.float32)

ESTIMATOR_S = frozenset(
    {
        "kernel",
        "gamma",
        "degree",
        "coef0",
        "class_weight",
        "scale",
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
    "scale" (1 / (features * variance of X); in partial_fit of the first batch) or "auto" (1 / features). scale: "auto"
    brings the columns to one measure (scaling.py), as a server does; in partial_fit by the first batch. Then both names
    of gamma say 1 / total variance. class_weight: factors of C by class, or "balanced" (not in partial_fit).
    random_state: of the shuffling, and of the solver's own draws.

    Fitted: classes_, n_features_in_, feature_names_in_ (where X has string names), and solver_, the solver itself. Its
    points are scaled.
    """

    solver: ClassVar[str]

    @property
    def one_by_one(self) -> bool:
        """Whether each example is predicted before it is learned; else there is nothing to fit probabilities to."""
        return True

    C: float = 1.0
    kernel: str = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    scale: str | None = None
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
        self._scale = self._found_scale(X)
        X = self._scaled(X)
        with told(self._solver_name()):
            learner = self._new_learner(X, y, classes, random, X.shape[0])
            converged = self._fit(learner, _rows(learner, X), numbers, random)
        if not converged:
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
        if first:
            self._scale = self._found_scale(X)
        X = self._scaled(X)
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
        parameters = self._solver_parameters(examples)
        if "C" in parameters and not (isinstance(self.C, Real) and self.C > 0):
            raise ValueError(f"C must be a number > 0, got {self.C!r}")
        learner = Learner(
            self._solver_name(),
            self._kernel(X),
            X.shape[1],
            seed=int(random.randint(2**31 - 1)),
            **parameters,
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
            if self._scale is not None:
                spread = _total_variance(X)
            else:
                spread = X.shape[1] * (_variance(X) if gamma == "scale" else 1.0)
            gamma = 1.0 / spread if spread > 0 else 1.0
        return make_kernel(name, gamma, self.degree, self.coef0)

    def _found_scale(self, X: Any) -> Scale | None:
        if self.scale is None:
            return None
        if self.scale != AUTO:
            raise ValueError(f"scale must be None or {AUTO!r}, got {self.scale!r}")
        return found(SPARSE if sparse.issparse(X) else DENSE, _csr(X), X.shape[1])

    def _scaled(self, X: Any) -> Any:
        if self._scale is None:
            return X
        if self._scale.form == DENSE:
            return self._scale.matrix(X.toarray() if sparse.issparse(X) else X)
        indptr, indices, values = self._scale.rows(_csr(X))
        return sparse.csr_array((values, indices, indptr), shape=X.shape)

    # -- reading --------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Decision values: (n,) for two classes, positive for classes_[1], else (n, classes)."""
        scores = self._columns(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _columns(self, X: Any) -> Array:
        """Decision values (n, K)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return self._learner.decision(_rows(self._learner, self._scaled(X)))

    def predict(self, X: Any) -> Array:
        """Labels (n,)."""
        scores = self._columns(X)
        labels: Array = self.classes_[class_numbers(scores, len(self.classes_))]
        return labels

    @available_if(attrgetter("one_by_one"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, classes): decision values at the temperature at which they fitted best, of the newest 1,000
        examples, before each was learned. They order classes as decision_function does.
        """
        scores = self._columns(X)
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        return probabilities(scores, inverse_temperature(*self._learner.heard))

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
        solver = solver.leader.machine if isinstance(solver, Race) else solver
        return np.bincount(solver.machine.class_of[slots], minlength=len(self.classes_)).astype(np.int32)

    def _support(self) -> tuple[Any, Array]:
        view: Any = self.solver_.view()
        return view, np.flatnonzero((view.alpha != 0).any(axis=0))


def _rows(learner: Learner, X: Any) -> Rows:
    if not sparse.issparse(X):
        return learner.dense_rows(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return learner.sparse_rows(X.indptr, X.indices, X.data)


def _csr(X: Any) -> CSR:
    X = sparse.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data.astype(np.float64)


def _total_variance(X: Any) -> float:
    """The sum of the columns' variances."""
    if not sparse.issparse(X):
        return float(X.var(axis=0).sum())
    n = X.shape[0]
    return float(np.square(X.data).sum() / n - np.square(X.sum(axis=0) / n).sum())


def _variance(X: Any) -> float:
    """Of all entries, by the same sums whether X is dense or sparse."""
    size = X.shape[0] * X.shape[1]
    values = (X.data if sparse.issparse(X) else X[X != 0]).astype(np.float64)
    mean = values.sum() / size
    return float((np.square(values - mean).sum() + (size - values.size) * mean * mean) / size)
