"""The one-class machine as a novelty detector of scikit-learn, with the interface of its OneClassSVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from hinged.solvers.core.solver import POINTS_MAX
from hinged.solvers.estimators.base import Learner
from hinged.solvers.estimators.estimator import Array, SolverEstimator, counting, rows_for, scaled
from hinged.solvers.estimators.parameters import example_weights
from hinged.solvers.estimators.scaling import Scale

INLIER, OUTLIER = 1, -1

UNKNOWN: Array = np.zeros(0)
"""Scores of the examples held before they are computed."""


@dataclass(kw_only=True, eq=False, repr=False)
class OneClassClassifier(OutlierMixin, SolverEstimator):
    """A one-class SVM that learns and unlearns examples exactly: scikit-learn's OneClassSVM for a stream.

    Laskov et al., JMLR 7, 2006. After every example that it learns or unlearns, the machine is the optimum of
    OneClassSVM for the examples that it holds, in float64. It needs no labels. A server has no such model, because its
    models have labels. Its least useful point is the oldest.

    Parameters
    ----------
    nu : float
        Fraction from 0 to 1: at most this fraction of the examples gets a negative decision value, and at least this
        fraction are support vectors.

    See Also
    --------
    ExactSVMClassifier : The exact machine with labels.

    Notes
    -----
    If nu times the number of examples is an integer, the offset may not be unique. Then it is the middle of its
    interval, as in LIBSVM. The scale of the coefficients is LIBSVM's: their sum is nu times the number of examples.

    Examples
    --------
    >>> from hinged.sklearn import OneClassClassifier
    >>> model = OneClassClassifier(nu=0.25, gamma=1.0).fit([[0.0], [0.1], [0.2], [0.3]])
    >>> model.predict([[0.15], [5.0]]).tolist()
    [1, -1]
    >>> model.partial_fit([[0.4]]).unlearn([0]).p_values([[5.0]]).tolist()
    [0.2]
    """

    solver = "one-class"

    nu: float = 0.5
    points_max: int = POINTS_MAX
    when_full: str = "refuse"
    cache_size: float = 256

    # -- learning -------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn a data set from the beginning.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.
        y : None
            Not used; present because scikit-learn passes it.
        sample_weight : float or array-like of shape (n,), default None
            Weight of each example, >= 0: an example of weight 2 counts as two. Examples of weight 0 are not learned.
            None means 1.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, X or sample_weight is invalid, or X has more rows than `points_max` allows.
        """
        return self._learn(X, y, sample_weight, first=True, together=True)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn another batch, in order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples. With gamma or scale by name, the first batch determines both.
        y : None
            Not used; present because scikit-learn passes it.
        sample_weight : float or array-like of shape (n,), default None
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, X or sample_weight is invalid. Also if the solver is full (`points_max` with
            when_full="refuse"); then nothing was learned.
        """
        return self._learn(X, y, sample_weight, first=not self.__sklearn_is_fitted__())

    def unlearn(self, rows: Sequence[int] | Array) -> Self:
        """Unlearn examples, as if they had never been learned.

        Parameters
        ----------
        rows : sequence of int
            Rows of X. Rows of later calls are numbered after the rows of earlier calls, as in ``support_``.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A row is not held; then nothing was unlearned.
        """
        check_is_fitted(self)
        machine: Any = self.solver_
        machine.unlearn([int(row) for row in rows])
        self._known = UNKNOWN
        return self

    def _learn(self, X: Any, y: Any, sample_weight: Any, *, first: bool, together: bool = False) -> Self:
        del y
        self._check_parameters()
        X = self._numbers(X, reset=first)
        weights = example_weights(sample_weight, X.shape[0], some=first)
        if first:
            known = counting(X, weights)
            scale = self._found_scale(known)
            learner = self._new_learner(scaled(scale, known), scale)
        else:
            scale, learner = self._scale, self._learner
        rows = rows_for(learner, scaled(scale, X))
        if together and weights is None and len(rows) <= self.points_max:
            learner.learn_together(rows)
        else:
            learner.learn(rows, np.zeros(len(rows), np.int64), weights)
        if first:
            self._made(learner, self._labels, scale, sparse.issparse(X))
        else:
            self._known = UNKNOWN
        return self

    def _made(self, learner: Learner, labels: Array, scale: Scale | None, is_sparse: bool) -> None:
        super()._made(learner, labels, scale, is_sparse)
        self._known = UNKNOWN

    def _new_learner(self, X: Any, scale: Scale | None) -> Learner:
        kernel = self._kernel(X, scale is not None)
        return Learner(self.solver, kernel, X.shape[1], seed=0, **self.solver_parameters())

    @property
    def _labels(self) -> Array:
        return np.array([INLIER])

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def offset_(self) -> float:
        """Offset of the decision values: `decision_function` is `score_samples` minus this number."""
        return -float(self.intercept_[0])

    def decision_function(self, X: Any) -> Array:
        """Compute decision values: positive for examples like the examples held, negative for other examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n,)
            Decision values.
        """
        return self._columns(X)[:, 0]

    def score_samples(self, X: Any) -> Array:
        """Compute decision values without the offset.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n,)
            Sums of coefficients times kernel values.
        """
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Array:
        """Predict whether examples are inliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n,)
            1 for inliers, and -1 for outliers, whose decision value is negative.
        """
        return np.where(self.decision_function(X) < 0.0, OUTLIER, INLIER)

    def p_values(self, X: Any) -> Array:
        """Compute p-values of the claim that an example is like the examples held; a small value means novel.

        The p-value of x is (1 + number of examples whose score is at most the score of x) / (n + 1), where n is the
        number of examples held. The score of an example held is its decision value without itself. Otherwise the
        examples would look more usual than a new example that is like them, and p-values would be too small.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n,)
            p-values, from 1 / (n + 1) to 1.

        Notes
        -----
        The first call after the machine changed unlearns each support vector, and restores the machine.
        """
        scores = self.decision_function(X)
        if not self._known.size:
            machine: Any = self.solver_
            self._known = np.sort(machine.leave_one_out()[1][:, 0])
        return (1 + np.searchsorted(self._known, scores, side="right")) / (self._known.size + 1)
