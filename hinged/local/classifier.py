"""The estimator for scikit-learn that needs no settings: a model of the server inside this program."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from hinged.extras import Later
from hinged.frames import BadFrame, decode, encode, peek
from hinged.local.parts import label_of, labels_of, parts_of
from hinged.service.data.classes import label_key, score_name
from hinged.solvers.core.cores import on_cores
from hinged.solvers.estimators.rare import warning_of_labels

if TYPE_CHECKING:
    from hinged.local import inputs, model
    from hinged.service.model.view import Decided
    from hinged.solvers.estimators import loading, parameters
else:  # the compiler, the solvers and the server's model take longer to import than scikit-learn
    inputs, model = Later("hinged.local.inputs"), Later("hinged.local.model")
    loading, parameters = Later("hinged.solvers.estimators.loading"), Later("hinged.solvers.estimators.parameters")

Array = np.ndarray[Any, Any]

ESTIMATOR = "estimator"
"""The part of a file that only this estimator reads; a server ignores it."""
SEED_BOUND = 2**31 - 1


@dataclass(kw_only=True, eq=False, repr=False)
class HingedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that finds its settings itself, with the same result as a server's model without settings.

    With no parameter set, several kernel machines race, and predictions use the mean of the best machines. Columns are
    brought to a common scale. X may be a matrix, a sparse matrix, a data frame (pandas, polars), a list of texts, or a
    list of dictionaries. Strings, categories, dates, booleans and missing values need no encoding.

    Parameters
    ----------
    solver : str or None, default None
        Name of a solver, such as 'lasvm', 'bsca' or 'auto' (the race). None: 'lasvm' if C or a number for gamma is
        given, else 'auto'.
    C : float or None, default None
        Upper bound of a dual coefficient: the price of an error. None: found by the race, or the solver's default.
    kernel : {'rbf', 'laplacian', 'linear', 'polynomial'} or None, default None
        Kernel. None: 'rbf', or 'linear' for texts.
    gamma : float, 'scale' or None, default None
        Factor of the kernel, > 0. 'scale' and None: found from the first 1,000 examples. With a number, a matrix is
        not scaled.
    features : {'dense', 'sparse', 'named', 'text'} or None, default None
        How the model takes X. None: by the first X. A data frame or matrix of numbers without missing values is
        'dense', other tables are 'named'. A 'named' model takes missing values, and new columns of dictionaries.
    columns : dict or None, default None
        Kinds of columns of strings by name: 'text', 'category' or 'time'. Other columns of strings are categories,
        dates, or left out if nearly all strings differ.
    class_weight : dict, 'balanced' or None, default None
        Factor of C for each class; None for 1. 'balanced' is n / (n_classes * examples of the class), in `fit` only.
    half_life : int or None, default None
        Number of examples after which an example counts half. None: never, except in machines of the race.
    finish : bool, default True
        Whether `fit` ends with an optimisation over all points.
    verbose : bool, default False
        Whether `fit` prints a line with its figures after each stage.
    random_state : int, RandomState or None, default 0
        Seed of the solver's random draws.
    n_jobs : int or None, default None
        Number of cores on which `fit` and `partial_fit` learn; None means 1, and -1 means all. The machines of the race
        learn at the same time, with the same result. Other solvers use one core.
    configuration : dict or None, default None
        Further parts of a server's configuration, such as ``{'points_max': 5000}``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, in ascending order: the order of the columns of `predict_proba`.
    n_features_in_ : int
        Number of columns of X, for matrices and data frames.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X, if all are strings.
    configuration_
    figures_

    See Also
    --------
    LASVMClassifier : One solver, with the parameters and attributes of scikit-learn's SVC.
    load : Loads an estimator from a file.

    Notes
    -----
    `fit` learns the examples once, in their order, and then finishes. Each example is predicted before it is learned;
    `predict_proba` is calibrated on these predictions.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from hinged.sklearn import HingedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HingedClassifier().fit(X[:400], y[:400])
    >>> round(model.score(X[400:], y[400:]), 2)
    0.99

    Dictionaries and data frames may hold strings and missing values:

    >>> payments = [{"amount": 12.5, "shop": "bakery"}, {"amount": 900, "shop": "jeweller"}, {"amount": None}] * 20
    >>> model = HingedClassifier().fit(payments, ["fine", "fraud", "fine"] * 20)
    >>> model.predict([{"amount": 870, "shop": "jeweller"}]).tolist()
    ['fraud']
    """

    solver: str | None = None
    C: float | None = None
    kernel: str | None = None
    gamma: float | str | None = None
    features: str | None = None
    columns: Mapping[str, str] | None = None
    class_weight: Mapping[Any, float] | str | None = None
    half_life: int | None = None
    finish: bool = True
    verbose: bool = False
    random_state: Any = 0
    n_jobs: int | None = None
    configuration: Mapping[str, Any] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_local")

    # -- learning -------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the examples once, in their order, and finish.

        Parameters
        ----------
        X : matrix, sparse matrix, data frame, or list of texts or dictionaries, of n examples
            Examples.
        y : array-like of shape (n,)
            Labels: texts, whole numbers or booleans.
        sample_weight : float or array-like of shape (n,), default None
            Weight of each example, >= 0: a factor of its C, or of its steps if the solver has no C. Examples of
            weight 0 are not learned. None means 1.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, X, y or sample_weight is invalid.

        Warns
        -----
        UserWarning
            y has a single class; or a class has less than 5 % of at least 100 labels, and there are neither weights nor
            costs.
        """
        X, y = self._checked(X, y, reset=True)
        weights = parameters.example_weights(sample_weight, len(y), some=True)
        taught = y if weights is None else y[weights > 0]
        classes, numbers = np.unique(y, return_inverse=True)
        if isinstance(self.class_weight, Mapping):
            compute_class_weight(self.class_weight, classes=classes, y=y)  # refuses labels that y lacks
        local = self._new(X, self._weights(np.unique(taught), taught))
        priced = self.class_weight is not None or bool(local.configuration.watched)
        warning = warning_of_labels(classes, numbers, weights, priced=priced)
        if warning is not None:
            warnings.warn(warning, stacklevel=2)
        with on_cores(effective_n_jobs(self.n_jobs)):
            _learn(local, X, y, weights, verbose=self.verbose)
            converged = local.finish(verbose=self.verbose) if self.finish else True
        self.classes_, self._local = classes, local
        if not converged:
            warnings.warn("finishing did not reach the solver's tolerance", ConvergenceWarning, stacklevel=2)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn another batch, in its order. A stream in batches gives the same model as one batch.

        Parameters
        ----------
        X : matrix, sparse matrix, data frame, or list of texts or dictionaries, of n examples
            Examples.
        y : array-like of shape (n,)
            Labels.
        classes : array-like of shape (n_classes,), default None
            All labels that may ever appear. None: new labels may appear at any time, and `classes_` has the labels so
            far.
        sample_weight : float or array-like of shape (n,), default None
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, X, y, classes or sample_weight is invalid.
        """
        first = not self.__sklearn_is_fitted__()
        X, y = self._checked(X, y, reset=first)
        weights = parameters.example_weights(sample_weight, len(y), some=first)
        declared = None if classes is None else unique_labels(classes)
        if self.class_weight == "balanced":
            raise ValueError("class_weight must be a dict or None in partial_fit, got 'balanced'")
        if first:
            known = np.unique(y) if declared is None else declared
            local = self._new(X, self._weights(known, y), declared)
        else:
            local = self._local
            if declared is not None and not np.array_equal(declared, self.classes_):
                raise ValueError(f"classes must be as in the first call, {self.classes_}, got {declared}")
            known = self.classes_ if np.isin(y, self.classes_).all() else np.unique(np.concatenate((self.classes_, y)))
        with on_cores(effective_n_jobs(self.n_jobs)):
            _learn(local, X, y, weights)
        self.classes_, self._local = known, local
        return self

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Array]:
        """Return X as `taken` returns it, and y as an array."""
        X = self._taken(X, reset=reset)
        if y is None:
            raise ValueError("HingedClassifier requires y to be passed, but the target y is None")
        parameters.check_no_gaps(y)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_consistent_length(X if not inputs.is_frame(X) else X[X.columns[0]], y)
        check_classification_targets(y)
        return X, y

    def _taken(self, X: Any, *, reset: bool) -> Any:
        X = inputs.taken(X)
        if isinstance(X, list):
            return X
        if inputs.is_frame(X):
            if reset or hasattr(self, "n_features_in_"):  # a server's model of named features has no order of names
                validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        # A table of objects may hold texts; inputs.py checks its values.
        dtype = None if X.dtype.kind not in "biuf" else [np.float64, np.float32]
        checked = validate_data(self, X, accept_sparse="csr", dtype=dtype, ensure_all_finite=False, reset=reset)
        if checked.dtype.kind in "biuf" and np.isinf(checked.data if sparse.issparse(checked) else checked).any():
            raise ValueError("X must not contain infinity")
        return checked

    def _weights(self, classes: Array, y: Array) -> dict[str, float] | None:
        if self.class_weight is None:
            return None
        weight = self.class_weight
        if isinstance(weight, Mapping):  # labels that are still to come have weights too
            return {score_name(label): float(weight[key]) for key, label in zip(weight, labels_of(weight), strict=True)}
        found = compute_class_weight(weight, classes=classes, y=y)
        return {score_name(label): float(w) for label, w in zip(labels_of(classes), found, strict=True)}

    def _new(self, X: Any, weights: dict[str, float] | None, classes: Array | None = None) -> model.LocalModel:
        """Return a model without examples."""
        seed = self.random_state
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
            seed = check_random_state(seed).randint(SEED_BOUND)
        parts = parts_of(
            self,
            inputs.features_of(X, self.features, self.columns),
            seed=int(seed),
            classes=None if classes is None or len(classes) < 2 else labels_of(classes),
            class_weight=weights,
        )
        return model.LocalModel.create(parts)

    # -- reading --------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Predict labels.

        Parameters
        ----------
        X : matrix, sparse matrix, data frame, or list of texts or dictionaries, of n examples
            Examples.

        Returns
        -------
        ndarray of shape (n,)
            Labels out of ``classes_``.
        """
        decided = self._decided(X)
        labels: Array = self.classes_[self._places()[decided.numbers]]
        return labels

    def decision_function(self, X: Any) -> Array:
        """Compute decision values.

        Parameters
        ----------
        X : matrix, sparse matrix, data frame, or list of texts or dictionaries, of n examples
            Examples.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            For two classes one value, positive for ``classes_[1]``; for three or more classes one column per class.
        """
        decided = self._decided(X)
        scores = self._by_class(self._local.scores(decided))
        return scores[:, 1] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Predict probabilities, calibrated on the predictions from before each example was learned.

        Parameters
        ----------
        X : matrix, sparse matrix, data frame, or list of texts or dictionaries, of n examples
            Examples.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``; each row has the sum 1. A softmax of the decision values, until
            20 examples have been predicted.
        """
        decided = self._decided(X)
        return self._by_class(self._local.probabilities(decided))

    def _decided(self, X: Any) -> Decided:
        check_is_fitted(self)
        X = self._taken(X, reset=False)
        return self._local.decide(inputs.inputs_of(X, self._local.configuration))

    def _by_class(self, columns: Array) -> Array:
        """Return the columns of the model's labels in the order of `classes_`; 0 for a class without examples."""
        found = np.zeros((len(columns), len(self.classes_)))
        found[:, self._places()] = columns
        return found

    def _places(self) -> Array:
        """Return the index in `classes_` of each of the model's labels."""
        places = {label_key(label): k for k, label in enumerate(labels_of(self.classes_))}
        return np.array([places[label_key(label)] for label in self._local.labels])

    @property
    def configuration_(self) -> dict[str, Any]:
        """The configuration of the model, as a server shows it; `client.create_model` takes it."""
        check_is_fitted(self)
        return self._local.shown_configuration()

    @property
    def figures_(self) -> dict[str, Any]:
        """The figures of the model, as ``client.model`` returns them: metrics, columns, machines of the race."""
        check_is_fitted(self)
        return self._local.figures()

    # -- files ----------------------------------------------------------------------------------------------------

    def to_model_file(self) -> bytes:
        """Return the model as the bytes of a file.

        Returns
        -------
        bytes
            The content that `save` writes; `hinged.sklearn.load` reads it, and a server can import it.
        """
        check_is_fitted(self)
        facts, arrays = decode(self._local.packed(), loading.EXPORT)
        own = {name: value for name, value in self.get_params(deep=False).items() if name != "random_state"}
        if isinstance(self.class_weight, Mapping):
            own["class_weight"] = [[label_of(label), float(w)] for label, w in self.class_weight.items()]
        facts[ESTIMATOR] = {
            "parameters": own,
            "labels": labels_of(self.classes_),
            "labels_type": self.classes_.dtype.str,
            "width": getattr(self, "n_features_in_", None),
            "names": [str(name) for name in getattr(self, "feature_names_in_", ())],
        }
        return encode(loading.EXPORT, facts, arrays)

    def save(self, path: str | Path) -> None:
        """Write the model to a file that contains no code.

        Parameters
        ----------
        path : str or Path
            The file; an existing file is overwritten. `hinged.sklearn.load` reads it, and a server imports it.
        """
        Path(path).write_bytes(self.to_model_file())

    @classmethod
    def load(cls, source: str | Path | bytes) -> Self:
        """Load a model that `save` wrote, or any model that a server exported.

        Parameters
        ----------
        source : str, Path or bytes
            The file's path, or its content.

        Returns
        -------
        HingedClassifier
            The model, which continues to learn as on the server.

        Raises
        ------
        ValueError
            The file is damaged, or its model cannot be read.
        """
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        own = peek(data, loading.EXPORT).get(ESTIMATOR)
        local = model.LocalModel.read(data)
        try:
            return cls._loaded(local) if own is None else cls._loaded(local, own)
        except (KeyError, TypeError, AttributeError) as error:
            raise BadFrame(f"the file does not fit together: {error!r}") from error

    @classmethod
    def _loaded(cls, local: model.LocalModel, own: Mapping[str, Any] | None = None) -> Self:
        if own is None:
            labels = sorted(local.labels, key=lambda label: (type(label).__name__, label))
            same = len({type(label) for label in labels}) == 1
            estimator, classes = cls(), np.array(labels, None if same else object)
            features = local.configuration.features
            width = features.dim if features.IN_ROWS else None
        else:
            width = own["width"]
            estimator = cls(**loading.with_weights(own["parameters"]))
            classes = loading.read_labels(own["labels"], own["labels_type"])
            if own["names"]:
                estimator.feature_names_in_ = loading.read_feature_names(own["names"], width)
        if not {label_key(label) for label in local.labels} <= {label_key(label) for label in labels_of(classes)}:
            raise BadFrame("the file's estimator lacks labels of its model")
        if width is not None:
            estimator.n_features_in_ = width
        estimator.classes_, estimator._local = classes, local
        return estimator


def _learn(local: model.LocalModel, X: Any, y: Array, weights: Array | None, *, verbose: bool = False) -> None:
    """Let a model learn the examples whose weight is not 0. weights: factors of C (n,), None if each is 1."""
    batch = inputs.inputs_of(X, local.configuration)
    factors: list[float] = []
    if weights is not None:
        rows = np.flatnonzero(weights)
        batch, y, factors = batch.take(rows), y[rows], weights[rows].tolist()
    if len(y):
        local.learn(batch, labels_of(y), factors, verbose=verbose)
