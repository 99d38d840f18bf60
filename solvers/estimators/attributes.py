"""The attributes of a fitted estimator, under scikit-learn's names."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.families import LINEAR
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.points import rows_of
from hinged.solvers.core.solver import Solver
from hinged.solvers.estimators.base import Learner
from hinged.solvers.estimators.scaling import Scale
from hinged.solvers.race.mean import MeanView
from hinged.solvers.race.race import Race

Array = np.ndarray[Any, Any]


class KernelExpansion(NamedTuple):
    """The function k(x, points) coefficients' + bias: points (SV, features), coefficients (K, SV), bias (K,)."""

    kernel: Kernel
    points: sparse.csr_array
    coefficients: Array
    bias: Array


class DecisionParts(NamedTuple):
    """Decision values are the sum of the expansions at the scaled x.

    scale: None if X is used unchanged. dtype: precision of the points, and of x.
    """

    scale: Scale | None
    expansions: list[KernelExpansion]
    dtype: type


class Fitted:
    """Attributes of a fitted estimator. With a scale, points and coef_ refer to the scaled columns.

    An attribute that the machine does not have raises an AttributeError with the reason. Examples: points of a solver
    that stores no points, and coef_ with a kernel that is not linear.
    """

    _learner: Learner
    _sparse: bool
    _scale: Scale | None
    _fitted: tuple[str, int]

    @property
    def solver_(self) -> Solver:
        """The solver; `solver_.certificate()` reports its duality gap, violation and sizes."""
        check_is_fitted(self)
        return self._learner.solver

    @property
    def n_iter_(self) -> int:
        """Steps of the solver since it was created: direction searches, coordinate updates or changes by an example."""
        steps: Any = self.solver_.certificate()["steps"]
        return int(steps)

    @property
    def support_(self) -> Array:
        """Rows of X (SV,) that are support vectors, the oldest first.

        Rows of later calls are numbered after the rows of earlier calls. A point that was merged from several points
        has the number -1.
        """
        slots = self._support()[1]
        keys: Array = self._machine().key[slots]
        return np.where(keys <= NONE, -1, keys)

    @property
    def support_vectors_(self) -> Any:
        """The support vectors (SV, features), the oldest first; a CSR array if X was sparse."""
        points = _points_of(*self._support())
        return points if self._sparse else points.toarray()

    @property
    def n_support_(self) -> Array:
        """Number of support vectors of each class (classes,), int32."""
        slots = self._support()[1]
        return np.bincount(self._machine().class_of[slots], minlength=self.solver_.classes).astype(np.int32)

    @property
    def dual_coef_(self) -> Array:
        """Signed dual coefficients (K, SV), positive for points of the positive class."""
        view, slots = self._support()
        coefficients: Array = view.coefficients()[:, slots]
        return coefficients

    @property
    def intercept_(self) -> Array:
        """Bias (K,), 0 for solvers without a bias."""
        bias: Array | None = getattr(self._leading().view(), "b", None)
        return np.zeros(self.solver_.columns) if bias is None else bias

    @property
    def coef_(self) -> Array:
        """Weights of the features (K, features) of a linear kernel: decision values are X @ coef_.T + intercept_."""
        view, slots = self._support()
        if view.kernel.code != LINEAR:
            raise AttributeError("coef_ needs kernel='linear': with other kernels features have no weights")
        weights: Array = view.coefficients()[:, slots] @ _points_of(view, slots).astype(np.float64)
        return weights

    def decision_parts(self) -> DecisionParts:
        """Return what decision values are computed from. Raise AttributeError for a machine without points.

        Returns
        -------
        DecisionParts
            The parts; of a race, an expansion for each arm that counts.
        """
        view: Any = self.solver_.view()
        views, shares = (view.views, view.weights) if isinstance(view, MeanView) else ((view,), (1.0,))
        found = []
        for each, share in zip(views, shares, strict=True):
            slots = self._slots(each)
            coefficients = share * each.coefficients()[:, slots]
            bias = share * np.broadcast_to(getattr(each, "b", 0.0), (len(coefficients),))
            found.append(KernelExpansion(each.kernel, _points_of(each, slots), coefficients, bias))
        return DecisionParts(self._scale, found, self.solver_.dtype)

    def _leading(self) -> Any:
        """Return the solver whose points and coefficients the attributes show: of a race, the leader's."""
        solver: Any = self.solver_
        return solver.leader.machine if isinstance(solver, Race) else solver

    def _machine(self) -> Any:
        """Return the arrays of that solver."""
        return self._leading().machine

    def _support(self) -> tuple[Any, Array]:
        """Return that solver's view, and the slots of its support vectors."""
        view: Any = self._leading().view()
        return view, self._slots(view)

    def _slots(self, view: Any) -> Array:
        """Return the slots of a view's support vectors."""
        if not hasattr(view, "alpha"):
            raise AttributeError(f"{type(self).__name__} keeps no points, and so has no support vectors")
        return np.flatnonzero((view.coefficients() != 0).any(axis=0))


def _points_of(view: Any, slots: Array) -> sparse.csr_array:
    """Return the points in these slots, one per row."""
    indptr, indices, values = rows_of(view.points, slots)
    return sparse.csr_array((values, indices, indptr), shape=(slots.size, view.dim))
