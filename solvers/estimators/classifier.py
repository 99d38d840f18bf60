"""What all scikit-learn estimators of the solvers have in common: labels, kernels, fitting and what was fitted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from joblib import hash as hash_of
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.kernels import Kernel, make_kernel
from hinged.solvers.core.parameters import Constraint, check, rules_of
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import class_numbers
from hinged.solvers.estimators.attributes import Fitted
from hinged.solvers.estimators.base import Learner
from hinged.solvers.estimators.files import pack
from hinged.solvers.estimators.parameters import RULES, example_weights
from hinged.solvers.estimators.probabilities import inverse_temperature, probabilities
from hinged.solvers.estimators.scaling import CSR, DENSE, SPARSE, Scale, found

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
        "warm_start",
        "algorithm",
    }
)
"""Parameters that an estimator uses itself; the solver takes all others, by the same names."""

OF_A_FIT = frozenset({"epochs", "shuffle", "finish", "warm_start", "random_state", "cache_size"})
"""Parameters that may be others where a fit goes on from the one before."""


@dataclass(kw_only=True, eq=False, repr=False)
class SolverClassifier(Fitted, ClassifierMixin, BaseEstimator):
    """What all estimators have in common; each names its solver, and its fields are its parameters.

    kernel: "linear", "poly" (or "polynomial"), "rbf" or "laplacian". gamma: a number,
    "scale" (1 / (features * variance of X); in partial_fit of the first batch) or "auto" (1 / features). scale: "auto"
    brings the columns to one measure (scaling.py), as a server does; in partial_fit by the first batch. Then both names
    of gamma say 1 / total variance. class_weight: factors of C by class, or "balanced" (not in partial_fit).
    random_state: of the shuffling, and of the solver's own draws. warm_start: `fit` goes on from the fit before, with
    further epochs where X, y and weights are the same, else with more examples; classes and parameters of the machine
    stay.

    Fitted: classes_, n_features_in_, feature_names_in_ (where X has string names), and those of Fitted.
    """

    solver: ClassVar[str]
    rules: ClassVar[Mapping[str, Constraint]]
    own_rules: ClassVar[Mapping[str, Constraint]] = {}
    """Of parameters that its solver does not declare, or not so."""

    def __init_subclass__(cls, **more: Any) -> None:
        """What its parameters may be follows from the solver."""
        super().__init_subclass__(**more)
        if hasattr(cls, "solver"):
            cls.rules = {**RULES, **rules_of(SOLVERS[cls.solver].make), **cls.own_rules}

    @property
    def one_by_one(self) -> bool:
        """Whether each example is predicted before it is learned; else there is nothing to fit probabilities to."""
        return True

    kernel: str = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    scale: str | None = None
    class_weight: dict[Any, float] | str | None = None
    random_state: Any = None
    warm_start: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    # -- learning -------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn X (n, features), dense or sparse, with labels y (n,), from the beginning unless `warm_start`.

        sample_weight (n,): factors of C, or of the steps where there is no C; what has 0 is left out.
        """
        self._check_parameters()
        goes_on = self.warm_start and self.__sklearn_is_fitted__()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS, reset=not goes_on)
        check_classification_targets(y)
        weights = example_weights(sample_weight, len(y), some=not goes_on)
        random, digest = check_random_state(self.random_state), hash_of((X, y) if weights is None else (X, y, weights))
        if goes_on:
            converged = self._go_on(X, y, weights, random, digest)
        else:
            classes, numbers = np.unique(y, return_inverse=True)
            known = _counting(X, weights)
            scale = self._found_scale(known)
            learner = self._new_learner(scaled(scale, known), y, classes, random, scale is not None, known.shape[0])
            converged = self._fit(learner, _rows(learner, scaled(scale, X)), numbers, random, weights=weights)
            self._made(learner, classes, scale, sparse.issparse(X), digest)
        if not converged:
            self._warn()
        return self

    def _warn(self) -> None:
        """Say to who called `fit` or `partial_fit` that the solver came to its limit of steps."""
        warnings.warn(
            f"{type(self).__name__} did not reach its tolerance: scale the features, or choose a smaller C",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _go_on(self, X: Any, y: Array, weights: Array | None, random: np.random.RandomState, digest: str) -> bool:
        """Go on from the fit before; returns whether it ended at the optimum."""
        for name, former in self._made_with.items():
            if name not in OF_A_FIT and repr(former) != repr(getattr(self, name)):
                raise ValueError(
                    f"{name} must stay {former!r} where warm_start goes on with a machine, got {getattr(self, name)!r}"
                )
        numbers, learner = self._numbers_of(y), self._learner
        again = digest == self._fitted[0]
        first = self._fitted[1] if again else learner.numbered
        rows = _rows(learner, self._scaled(X))
        converged = self._fit(learner, rows, numbers, random, first, weights=weights, again=again)
        self._fitted = digest, first
        return converged

    def _made(self, learner: Learner, classes: Array, scale: Scale | None, is_sparse: bool, digest: str = "") -> None:
        """Take over what a first fit came to, once nothing can go wrong any more."""
        self.classes_, self._learner, self._scale, self._sparse = classes, learner, scale, is_sparse
        self._made_with = self.get_params(deep=False)
        # Digest of the last fit's X and y, number of its first row.
        self._fitted = digest, 0

    def restore(self, learner: Learner, classes: Array, scale: Scale | None, *, is_sparse: bool) -> None:
        """Take over what a file holds (loading.py)."""
        if classes.shape != (learner.solver.classes,):
            raise ValueError(f"labels must be one for each of {learner.solver.classes} classes, got {classes}")
        self._made(learner, classes, scale, is_sparse)
        self.n_features_in_ = learner.solver.dim

    def _numbers_of(self, y: Array) -> Array:
        """Class numbers (n,) of labels."""
        order = np.argsort(self.classes_, kind="stable")
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(f"y must hold labels of classes, {self.classes_}, got {unknown}")
        numbers: Array = order[np.searchsorted(self.classes_, y, sorter=order)]
        return numbers

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn one batch more, in order. classes: all labels that may ever come; needed in the first call.

        sample_weight: as in `fit`.
        """
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit")
        if classes is not None:
            classes = unique_labels(classes)
            if not first and not np.array_equal(classes, np.sort(self.classes_)):
                raise ValueError(f"classes must be those of the first call, {self.classes_}, got {classes}")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' is not supported for partial_fit. Pass the weights of "
                "compute_class_weight('balanced', classes=classes, y=y) as a dict instead"
            )
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS, reset=first)
        check_classification_targets(y)
        weights = example_weights(sample_weight, len(y), some=first)
        if not first:
            self._learner.learn(_rows(self._learner, self._scaled(X)), self._numbers_of(y), weights)
            if self._learner.solver.converged is False:
                self._warn()
            return self
        unknown = np.setdiff1d(y, classes)
        if unknown.size:
            raise ValueError(f"y must hold labels of classes, {classes}, got {unknown}")
        known = _counting(X, weights)
        scale = self._found_scale(known)
        random = check_random_state(self.random_state)
        learner = self._new_learner(scaled(scale, known), y, classes, random, scale is not None)
        learner.learn(_rows(learner, scaled(scale, X)), np.searchsorted(classes, y), weights)
        self._made(learner, classes, scale, sparse.issparse(X))
        if learner.solver.converged is False:
            self._warn()
        return self

    def _fit(
        self,
        learner: Learner,
        rows: Rows,
        numbers: Array,
        random: np.random.RandomState,  # noqa: ARG002  for those that shuffle
        first: int = 0,
        *,
        weights: Array | None = None,
        again: bool = False,
    ) -> bool:
        """Learn a whole data set, all at once; returns whether it ended at the optimum, where there is one.

        first: the number of its first row. weights: None, or (n,) >= 0. again: it was learned before.
        """
        if not again:
            assert first == learner.numbered  # noqa: S101
            learner.learn(rows, numbers, weights)
            if learner.solver.converged is not None:
                return learner.solver.converged
        return learner.solver.finish().converged

    def _new_learner(
        self,
        X: Any,
        y: Array,
        classes: Array,
        random: np.random.RandomState,
        is_scaled: bool,
        examples: int | None = None,
    ) -> Learner:
        learner = Learner(
            self._solver_name(),
            self._kernel(X, is_scaled),
            X.shape[1],
            seed=int(random.randint(2**31 - 1)),
            **self._solver_parameters(examples),
        )
        for weight in compute_class_weight(self.class_weight, classes=classes, y=y):
            learner.solver.add_class(float(weight))
        return learner

    def _check_parameters(self) -> None:
        """Refuse a parameter that cannot be. Not of get_params, which takes 30 us, and partial_fit 300 in all."""
        check({field.name: getattr(self, field.name) for field in fields(self)}, self.rules)

    def _solver_name(self) -> str:
        return self.solver

    def solver_parameters(self) -> dict[str, Any]:
        """What the solver of a stream takes."""
        return self._solver_parameters(None)

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        """What the solver takes; examples: how many there are in all, None for a stream."""
        del examples
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ESTIMATOR_S}

    def _kernel(self, X: Any, is_scaled: bool) -> Kernel:
        name, gamma = "polynomial" if self.kernel == "poly" else self.kernel, self.gamma
        if isinstance(gamma, str):
            plain = X.shape[1] * (_variance(X) if gamma == "scale" else 1.0)
            spread = _total_variance(X) if is_scaled else plain
            gamma = 1.0 / spread if spread > 0 else 1.0
        return make_kernel(name, gamma, self.degree, self.coef0)

    # -- files ----------------------------------------------------------------------------------------------------

    def to_model_file(self) -> bytes:
        """The fitted estimator as the bytes of a file, which hinged.sklearn.load reads and a server imports."""
        check_is_fitted(self)
        return pack(self)

    def save(self, path: str | Path) -> None:
        """Write that file."""
        Path(path).write_bytes(self.to_model_file())

    def _found_scale(self, X: Any) -> Scale | None:
        return None if self.scale is None else found(SPARSE if sparse.issparse(X) else DENSE, _csr(X), X.shape[1])

    def _scaled(self, X: Any) -> Any:
        return scaled(self._scale, X)

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


@dataclass(kw_only=True, eq=False, repr=False)
class BoundedClassifier(SolverClassifier):
    """Solvers whose coefficients have a bound. Further parameters: SolverClassifier.

    C: that bound, the price of an error.
    """

    C: float = 1.0


def scaled(scale: Scale | None, X: Any) -> Any:
    """Rows in a scale, dense or sparse as that is; as they are without one."""
    if scale is None:
        return X
    if scale.form == DENSE:
        return scale.matrix(X.toarray() if sparse.issparse(X) else X)
    indptr, indices, values = scale.rows(_csr(X))
    return sparse.csr_array((values, indices, indptr), shape=X.shape)


def _counting(X: Any, weights: Array | None) -> Any:
    """The rows that do not weigh 0."""
    return X if weights is None or weights.all() else X[weights > 0]


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
