"""The common part of the solvers' classifiers: labels, fitting, decisions and probabilities."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from joblib import hash as hash_of
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from hinged.solvers.core.reports import WholeFinish
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import class_numbers
from hinged.solvers.estimators.base import Learner
from hinged.solvers.estimators.estimator import SolverEstimator, counting, rows_for, scaled
from hinged.solvers.estimators.parameters import check_no_gaps, example_weights
from hinged.solvers.estimators.probabilities import inverse_temperature, probabilities
from hinged.solvers.estimators.rare import warning_of_labels
from hinged.solvers.estimators.scaling import Scale

Array = np.ndarray[Any, Any]

OF_A_FIT = frozenset({"epochs", "shuffle", "finish", "warm_start", "verbose", "random_state", "cache_size"})
"""Parameters that may change when a fit continues the previous fit (`warm_start`)."""


def _calibrates(estimator: SolverClassifier) -> bool:
    """Return whether the solver learns one example at a time. Raise AttributeError if not."""
    if estimator.one_by_one:
        return True
    raise AttributeError(
        f"{type(estimator).__name__} learns all examples at once and has no decision values from before: fit "
        "sklearn.calibration.CalibratedClassifierCV(estimator) for probabilities"
    )


def tell(stage: str, points: float | None, gap: float | None, violating: int | None = None) -> None:
    """Print what a stage of `fit` led to, for `verbose`. A figure that the solver does not have is left out."""
    figures = [
        f"{points:,} points" if points else "",
        f"duality gap {gap:.3g}" if gap is not None else "",
        f"{violating:,} other examples violate" if violating is not None else "",
    ]
    print(f"{stage}: {', '.join(filter(None, figures))}", flush=True)  # noqa: T201


@dataclass(kw_only=True, eq=False, repr=False)
class SolverClassifier(ClassifierMixin, SolverEstimator):
    """The base of all classifiers.

    Parameters
    ----------
    class_weight : dict, 'balanced' or None
        Factor of the steps for each class; None for 1. 'balanced' is n / (n_classes * examples of the class), in `fit`
        only.
    random_state : int, RandomState or None
        Seed of the shuffling and of the solver's random draws.
    warm_start : bool
        Whether `fit` continues the previous fit: with further epochs if X, y and weights are the same, else with new
        examples.
    verbose : bool
        Whether `fit` prints a line with its figures after each stage.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, in the order of the columns of decision values.
    """

    @property
    def one_by_one(self) -> bool:
        """Whether each example is predicted before it is learned. If not, probabilities cannot be fitted."""
        return True

    class_weight: dict[Any, float] | str | None = None
    random_state: Any = None
    warm_start: bool = False
    verbose: bool = False

    # -- learning -------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn a data set.

        Starts from the beginning, unless `warm_start` is set and the estimator is fitted.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.
        y : array-like of shape (n,)
            Labels: strings, numbers or booleans.
        sample_weight : float or array-like of shape (n,), default None
            Weight of each example, >= 0: a factor of its C, or of its steps if the solver has no C. Examples of
            weight 0 are not learned. None means 1.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, X, y or sample_weight is invalid; with `warm_start` also if a parameter of the machine changed.

        Warns
        -----
        ConvergenceWarning
            The solver reached its limit of steps before its tolerance.
        UserWarning
            y has a single class; or a class has less than 5 % of at least 100 labels, and there are no weights.
        """
        self._check_parameters()
        goes_on = self.warm_start and self.__sklearn_is_fitted__()
        check_no_gaps(y)
        X, y = self._numbers(X, y, reset=not goes_on)
        check_classification_targets(y)
        weights = example_weights(sample_weight, len(y), some=not goes_on)
        random, digest = check_random_state(self.random_state), hash_of((X, y) if weights is None else (X, y, weights))
        if goes_on:
            finish = self._go_on(X, y, weights, random, digest)
        else:
            classes, numbers = np.unique(y, return_inverse=True)
            known = counting(X, weights)
            warning = warning_of_labels(classes, numbers, weights, priced=self.class_weight is not None)
            if warning is not None:
                warnings.warn(warning, stacklevel=2)
            scale = self._found_scale(known)
            learner = self._new_learner(scaled(scale, known), y, classes, random, scale is not None, known.shape[0])
            finish = self._fit(learner, rows_for(learner, scaled(scale, X)), numbers, random, weights=weights)
            self._made(learner, classes, scale, sparse.issparse(X), digest)
        if not finish.converged:
            self._warn(finish.missing)
        return self

    def _warn(self, missing: int = 0) -> None:
        """Warn the caller of `fit` or `partial_fit` that the solver did not reach its optimum.

        missing: as in WholeFinish.
        """
        reason = (
            f"did not reach its optimum: {missing} more examples violate, but points_max allows "
            f"{self.solver_.points_max} points; raise points_max"
            if missing
            else "did not reach its tolerance: scale the features, or choose a smaller C"
        )
        warnings.warn(f"{type(self).__name__} {reason}", ConvergenceWarning, stacklevel=3)

    def _go_on(
        self, X: Any, y: Array, weights: Array | None, random: np.random.RandomState, digest: str
    ) -> WholeFinish:
        """Continue the previous fit; return the outcome of its finishing step."""
        for name, former in self._made_with.items():
            if name not in OF_A_FIT and repr(former) != repr(getattr(self, name)):
                raise ValueError(
                    f"{name} must stay {former!r} where warm_start goes on with a machine, got {getattr(self, name)!r}"
                )
        numbers, learner = self._numbers_of(y), self._learner
        again = digest == self._fitted[0]
        first = self._fitted[1] if again else learner.numbered
        rows = rows_for(learner, self._scaled(X))
        finish = self._fit(learner, rows, numbers, random, first, weights=weights, again=again)
        self._fitted = digest, first
        return finish

    def _made(self, learner: Learner, labels: Array, scale: Scale | None, is_sparse: bool, digest: str = "") -> None:
        super()._made(learner, labels, scale, is_sparse)
        self.classes_ = labels
        self._made_with = self.get_params(deep=False)
        # Digest of the last fit's X and y, and number of its first row.
        self._fitted = digest, 0

    @property
    def _labels(self) -> Array:
        return self.classes_

    def _numbers_of(self, y: Array) -> Array:
        """Return the class numbers (n,) of labels."""
        order = np.argsort(self.classes_, kind="stable")
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(f"y must hold labels of classes, {self.classes_}, got {unknown}")
        numbers: Array = order[np.searchsorted(self.classes_, y, sorter=order)]
        return numbers

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn another batch, in order.

        The solver neither shuffles nor finishes, so a stream in pieces gives the same model as the whole stream.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples, in the order of the stream. With gamma or scale by name, the first batch determines both.
        y : array-like of shape (n,)
            Labels.
        classes : array-like of shape (n_classes,), default None
            All labels that may ever appear. Required in the first call, and may be repeated later.
        sample_weight : float or array-like of shape (n,), default None
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, X, y, classes or sample_weight is invalid, or class_weight is "balanced". Also if the solver is
            full (`points_max` with when_full="refuse"); then nothing was learned.
        """
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit")
        if classes is not None:
            classes = unique_labels(classes)
            if not first and not np.array_equal(classes, np.sort(self.classes_)):
                raise ValueError(f"classes must be as in the first call, {self.classes_}, got {classes}")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' is not supported for partial_fit. Pass the weights of "
                "compute_class_weight('balanced', classes=classes, y=y) as a dict instead"
            )
        check_no_gaps(y)
        X, y = self._numbers(X, y, reset=first)
        check_classification_targets(y)
        weights = example_weights(sample_weight, len(y), some=first)
        if not first:
            self._learner.learn(rows_for(self._learner, self._scaled(X)), self._numbers_of(y), weights)
            if self._learner.solver.converged is False:
                self._warn()
            return self
        unknown = np.setdiff1d(y, classes)
        if unknown.size:
            raise ValueError(f"y must hold labels of classes, {classes}, got {unknown}")
        known = counting(X, weights)
        scale = self._found_scale(known)
        random = check_random_state(self.random_state)
        learner = self._new_learner(scaled(scale, known), y, classes, random, scale is not None)
        learner.learn(rows_for(learner, scaled(scale, X)), np.searchsorted(classes, y), weights)
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
    ) -> WholeFinish:
        """Learn a whole data set at once. Return the outcome of the finishing step.

        first: number of the data's first row. weights: None, or (n,) >= 0. again: whether the data was learned before.
        """
        converged = None
        if not again:
            assert first == learner.numbered  # noqa: S101
            learner.learn(rows, numbers, weights)
            converged = learner.solver.converged
        if converged is None:
            converged = learner.solver.finish().converged
        self._tell("solved", learner)
        return WholeFinish(0, converged, missing=0)

    def _tell(self, stage: str, learner: Learner) -> None:
        """Print the points and the duality gap after a stage of `fit`, if `verbose` is set."""
        if self.verbose:
            known = learner.solver.certificate()
            tell(stage, known["points"], known["gap"])

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

    # -- reading --------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Compute decision values.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            For two classes one value, positive for ``classes_[1]``; for three or more classes one column per class, and
            the largest value wins.
        """
        scores = self._columns(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Predict labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n,)
            Labels out of ``classes_``.
        """
        scores = self._columns(X)
        labels: Array = self.classes_[class_numbers(scores, len(self.classes_))]
        return labels

    @available_if(_calibrates)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Predict probabilities: a softmax of decision values at a fitted temperature.

        The temperature maximises the likelihood of the newest 1,000 examples, whose decision values were computed just
        before each was learned (Guo et al., ICML 2017). So probabilities order the classes as `decision_function` does.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``; each row has the sum 1.
        """
        scores = self._columns(X)
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        return probabilities(scores, inverse_temperature(*self._learner.heard))


@dataclass(kw_only=True, eq=False, repr=False)
class BoundedClassifier(SolverClassifier):
    """The base of estimators whose coefficients have a bound, C.

    Parameters
    ----------
    C : float
        Upper bound of a dual coefficient, > 0: the price of an error. Larger values fit the examples more closely.
    class_weight : dict, 'balanced' or None
        Factor of C for each class; None for 1. 'balanced' is n / (n_classes * examples of the class), in `fit` only.
    """

    C: float = 1.0
