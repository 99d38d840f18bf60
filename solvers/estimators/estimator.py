"""The common part of all estimators of a solver, with labels or without: kernel, scale, machine and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from hinged.solvers.catalogue import entry_of
from hinged.solvers.core.kernels import Kernel, make_kernel
from hinged.solvers.core.parameters import Constraint, check, declared, rules_of
from hinged.solvers.core.rows import Rows
from hinged.solvers.estimators.attributes import Fitted
from hinged.solvers.estimators.base import Learner
from hinged.solvers.estimators.docstrings import inherit
from hinged.solvers.estimators.files import pack
from hinged.solvers.estimators.parameters import RULES
from hinged.solvers.estimators.scaling import CSR, DENSE, SPARSE, Scale, found

Array = np.ndarray[Any, Any]

FLOATS = (np.float64, np.float32)


@dataclass(kw_only=True, eq=False, repr=False)
class SolverEstimator(Fitted, BaseEstimator):
    """The base of all estimators of a solver. Each estimator names its solver, and its fields are its parameters.

    Parameters
    ----------
    kernel : {'linear', 'poly', 'rbf', 'laplacian'}
        Kernel: x.z, (gamma x.z + coef0)^degree, exp(-gamma |x - z|^2) or exp(-gamma |x - z|_1). 'polynomial' means
        'poly'.
    gamma : float, 'scale' or 'auto'
        Factor of the kernel, > 0. 'scale' is 1 / (n_features * variance of X), 'auto' is 1 / n_features. With
        scale='auto' both are 1 / total variance of the scaled X.
    degree : int
        Degree of the polynomial kernel, from 1 to 16.
    coef0 : float
        Constant of the polynomial kernel, >= 0.
    scale : 'auto' or None
        'auto' brings the columns to a common scale, as a server does; None uses X unchanged.
    precision : {'float32', 'float64'}
        Precision of points and kernel values.
    cache_size : float
        Memory of cached kernel rows, in MiB.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X, if all are strings.
    """

    solver: ClassVar[str]
    rules: ClassVar[Mapping[str, Constraint]]
    own_rules: ClassVar[Mapping[str, Constraint]] = {}
    """Rules of parameters that the solver does not declare, or for which the estimator's rule differs."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Derive the rules of the parameters from the solver, and complete the docstring."""
        super().__init_subclass__(**more)
        inherit(cls)
        if hasattr(cls, "solver"):
            cls.rules = {**RULES, **rules_of(entry_of(cls.solver).make), **cls.own_rules}

    kernel: str = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    scale: str | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def _check_parameters(self) -> None:
        """Refuse an invalid parameter.

        This reads the fields, because get_params takes 30 of the 300 us of a partial_fit.
        """
        check({field.name: getattr(self, field.name) for field in fields(self)}, self.rules)

    def _solver_name(self) -> str:
        return self.solver

    def solver_parameters(self) -> dict[str, Any]:
        """Return the parameters of the solver, for a stream."""
        return self._solver_parameters(None)

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        """Return the parameters of the solver. examples: total number of examples, None for a stream."""
        del examples
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        cache = {"cache_bytes": int(values["cache_size"] * 2**20)} if "cache_size" in values else {}
        of_solver = {*declared(entry_of(self.solver).make), "precision"}
        return {name: value for name, value in values.items() if name in of_solver} | cache

    def _kernel(self, X: Any, is_scaled: bool) -> Kernel:
        name, gamma = "polynomial" if self.kernel == "poly" else self.kernel, self.gamma
        if isinstance(gamma, str):
            plain = X.shape[1] * (_variance(X) if gamma == "scale" else 1.0)
            spread = _total_variance(X) if is_scaled else plain
            gamma = 1.0 / spread if spread > 0 else 1.0
        return make_kernel(name, gamma, self.degree, self.coef0)

    @property
    def _labels(self) -> Array:
        """The label of each class of the machine."""
        raise NotImplementedError

    def _made(self, learner: Learner, labels: Array, scale: Scale | None, is_sparse: bool) -> None:  # noqa: ARG002
        """Store the result of a first fit, after everything that can fail."""
        self._learner, self._scale, self._sparse = learner, scale, is_sparse

    def restore(self, learner: Learner, labels: Array, scale: Scale | None, *, is_sparse: bool) -> None:
        """Set the estimator to the content of a model file."""
        if labels.shape != (learner.solver.classes,):
            raise ValueError(f"labels must be one for each of {learner.solver.classes} classes, got {labels}")
        self._made(learner, labels, scale, is_sparse)
        self.n_features_in_ = learner.solver.dim

    # -- files ----------------------------------------------------------------------------------------------------

    def to_model_file(self) -> bytes:
        """Return the fitted estimator as the bytes of a model file.

        Returns
        -------
        bytes
            The content that `save` writes; `hinged.sklearn.load` reads it, and a server can import it.

        Raises
        ------
        ValueError
            A parameter or a label cannot be written, for example a RandomState as random_state.
        """
        check_is_fitted(self)
        return pack(self)

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a file that contains no code.

        Parameters
        ----------
        path : str or Path
            The file; an existing file is overwritten. `hinged.sklearn.load` reads it, and a server imports it.

        Raises
        ------
        ValueError
            A parameter or a label cannot be written, for example a RandomState as random_state.
        """
        Path(path).write_bytes(self.to_model_file())

    def _found_scale(self, X: Any) -> Scale | None:
        return None if self.scale is None else found(SPARSE if sparse.issparse(X) else DENSE, _csr(X), X.shape[1])

    def _scaled(self, X: Any) -> Any:
        return scaled(self._scale, X)

    # -- reading --------------------------------------------------------------------------------------------------

    def _columns(self, X: Any) -> Array:
        """Return the decision values (n, K)."""
        rows = self._rows(X)
        return self._learner.decision(rows)

    def _rows(self, X: Any) -> Rows:
        """Return X as a batch for the solver."""
        check_is_fitted(self)
        return rows_for(self._learner, self._scaled(self._numbers(X, reset=False)))

    def _numbers(self, *data: Any, reset: bool) -> Any:
        """Return X, or X and y, as scikit-learn checks them. reset: whether this X defines the columns."""
        try:
            return validate_data(self, *data, accept_sparse="csr", dtype=FLOATS, reset=reset)
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(
                f"{type(self).__name__} takes only numbers: {error}. HingedClassifier also takes strings, categories, "
                "dates and missing values"
            ) from None


inherit(SolverEstimator)


def scaled(scale: Scale | None, X: Any) -> Any:
    """Bring rows to a scale, dense or sparse like the scale. Without a scale return them unchanged."""
    if scale is None:
        return X
    if scale.form == DENSE:
        return scale.matrix(X.toarray() if sparse.issparse(X) else X)
    indptr, indices, values = scale.rows(_csr(X))
    return sparse.csr_array((values, indices, indptr), shape=X.shape)


def counting(X: Any, weights: Array | None) -> Any:
    """Return the rows whose weight is not 0."""
    return X if weights is None or weights.all() else X[weights > 0]


def rows_for(learner: Learner, X: Any) -> Rows:
    """Prepare a batch, dense or sparse, for the machine of an estimator."""
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
    """Return the sum of the variances of the columns."""
    if not sparse.issparse(X):
        return float(X.var(axis=0).sum())
    n = X.shape[0]
    return float(np.square(X.data).sum() / n - np.square(X.sum(axis=0) / n).sum())


def _variance(X: Any) -> float:
    """Return the variance of all entries, by the same sums for dense and for sparse X."""
    size = X.shape[0] * X.shape[1]
    values = (X.data if sparse.issparse(X) else X[X != 0]).astype(np.float64)
    mean = values.sum() / size
    return float((np.square(values - mean).sum() + (size - values.size) * mean * mean) / size)
