"""Reads the x of estimators: matrices, data frames, texts and dictionaries.

A data frame is any table with `columns` whose columns have `to_list`, for example of pandas or polars. Neither library
is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from scipy import sparse

from hinged.local.model import as_value_errors
from hinged.service.data.features.named import RecordFeatures
from hinged.service.data.features.rows import dense_rows, sparse_rows
from hinged.service.data.inputs import Inputs, Records
from hinged.service.data.parts import Configuration
from hinged.solvers.core.rows import BadRow
from hinged.solvers.estimators.parameters import ABSENT, is_missing

Array = np.ndarray[Any, Any]

NUMBERS = "biuf"
"""NumPy's kinds of types that are numbers or booleans."""
PLAIN = frozenset({str, int, float, bool})
DENSE, SPARSE, NAMED, TEXT = "dense", "sparse", "named", "text"
FORMS = (DENSE, SPARSE, NAMED, TEXT)
TABLES = "a matrix, a data frame, or a list of texts or dictionaries"
MISSING = "; a model whose first X has a missing value, or with features='named', takes missing values"


def is_frame(X: Any) -> bool:
    """Return whether X is a table whose columns have names."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, Mapping)


def taken(X: Any) -> Any:
    """Return X as a sparse matrix, a data frame, an array, or a list of texts or dictionaries. Raise ValueError for a
    single text or dictionary, and for any other value that is not a table.
    """
    if sparse.issparse(X) or is_frame(X):
        return X
    if isinstance(X, list | tuple) or hasattr(X, "to_list") or getattr(X, "ndim", 0) == 1:
        values = _listed(X)
        if any(isinstance(value, str | Mapping) for value in values):
            return values
    array = np.asarray(X)
    if not array.ndim:
        raise ValueError(f"X must be {TABLES}, got {X!r:.80}")
    if array.dtype.kind == "O":  # numbers among objects, for example of a data frame that became an array
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            return array
    return array.astype(object) if array.dtype.kind in "US" else array


def form_of(X: Any) -> str:
    """Return the kind of features for an X: 'dense', 'sparse', 'named' or 'text'.

    The first text or dictionary of a list decides.
    """
    if sparse.issparse(X):
        return SPARSE
    if is_frame(X):
        columns = [_numbers(X[name]) for name in X.columns]
        return DENSE if columns and all(c is not None and not np.isnan(c).any() for c in columns) else NAMED
    if isinstance(X, list):
        return TEXT if isinstance(next(x for x in X if isinstance(x, str | Mapping)), str) else NAMED
    return NAMED if X.dtype.kind not in NUMBERS or np.isnan(X).any() else DENSE


def features_of(X: Any, form: str | None, columns: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the features of a new model: their kind and width. Raise ValueError for an unknown kind or column.

    form: the kind that the user asked for. columns: kinds of columns by name.
    """
    if form is not None and form not in FORMS:
        raise ValueError(f"features must be None or one of {', '.join(FORMS)}, got {form!r}")
    if columns and is_frame(X) and (unknown := columns.keys() - set(map(str, X.columns))):
        raise ValueError(f"columns must be names of columns of X, got {min(unknown)!r}")
    form = form or (NAMED if columns else form_of(X))
    return {"type": form, "dim": width_of(X)} if form in (DENSE, SPARSE) else {"type": form}


def _refuse_list(X: Any) -> None:
    if isinstance(X, list):
        asked = "a matrix or data frame of numbers, as in the first X or in `features`"
        raise ValueError(f"X must be {asked}, got a list with {X[0]!r:.80}")  # noqa: TRY004  as for other tables


def width_of(X: Any) -> int:
    """Return the number of columns of a matrix or data frame. Raise ValueError for a list."""
    _refuse_list(X)
    return len(X.columns) if is_frame(X) else int(X.shape[1])


def inputs_of(X: Any, configuration: Configuration) -> Inputs:
    """Return X in the form of the model's features. Raise ValueError if X does not have this form."""
    features = configuration.features
    if isinstance(features, RecordFeatures):
        found = _records(X, features.type)
        with as_value_errors():
            return Records(tuple(features.record_of(x, index) for index, x in enumerate(found)))
    try:
        if sparse.issparse(X):
            X = sparse.csr_array(X)
            return sparse_rows(X.indptr, X.indices, X.data, configuration)
        X = _matrix(X)
        return dense_rows(X, configuration)
    except BadRow as error:
        missing = np.isnan(X.data if sparse.issparse(X) else X[error.row]).any()
        raise ValueError(f"row {error.row} of X: {error.reason}{MISSING if missing else ''}") from None


def _records(X: Any, form: str) -> Iterable[Mapping[str, Any]]:
    """Yield each row of X as names and values."""
    if sparse.issparse(X):
        X = X.toarray()
    if is_frame(X):
        names = [str(name) for name in X.columns]
        columns = [_values(X[name]) for name in X.columns]
    elif isinstance(X, list):
        if form == TEXT:
            return ({TEXT: value_of(TEXT, text)} for text in X)
        return (_record(row, x) for row, x in enumerate(X))
    else:
        X = np.asarray(X)
        names = [f"x{k}" for k in range(X.shape[1])]
        columns = [_values(column) for column in X.T]
    if form == TEXT:
        if len(columns) != 1:
            raise ValueError(f"a model of texts takes a list of texts or one column, got {len(columns)} columns")
        names = [TEXT]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _record(row: int, x: Any) -> dict[str, Any]:
    if not isinstance(x, Mapping):
        raise ValueError(f"X[{row}] must be a dictionary of values by name, as in the first X, got {x!r:.80}")  # noqa: TRY004
    return {str(name): value_of(name, value) for name, value in x.items()}


def _values(column: Any) -> list[Any]:
    """Return the values of a column as numbers, texts, booleans and None."""
    categories, name = str(getattr(column, "dtype", "")) == "category", getattr(column, "name", "")
    values = [value_of(name, value) for value in _listed(column)]
    # A category is a name, even if it looks like a number.
    return [v if v is None or isinstance(v, str) else str(v) for v in values] if categories else values


def value_of(name: object, value: Any) -> Any:
    """Return a value as a number, a text, a boolean or None."""
    if type(value) in PLAIN and value == value:  # noqa: PLR0124  NaN differs from itself
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"column {name!r}: argument must be a string, a number, a boolean, a date or missing, got {value!r:.80}"
    )


def _matrix(X: Any) -> Array:
    """Return the numbers of a data frame or matrix. Raise ValueError if a column has other values."""
    _refuse_list(X)
    if not is_frame(X):
        return np.asarray(X)
    columns: list[Array] = []
    for name in X.columns:
        column = _numbers(X[name])
        if column is None:
            raise ValueError(f"column {name!r} must have numbers only, as in the first X; features='named' takes texts")
        columns.append(column)
    return np.column_stack(columns)


def _numbers(column: Any) -> Array | None:
    """Return a column as float64, NaN where a value is missing. Return None if a value is not a number."""
    if str(getattr(column, "dtype", "")) == "category":
        return None
    array = np.asarray(column)
    if array.dtype.kind == "O":
        values = [np.nan if type(value).__name__ in ABSENT else value for value in _listed(column)]
        if not all(isinstance(value, bool | int | float | np.number | np.bool_) for value in values):
            return None
        array = np.array(values, np.float64)
    return array.astype(np.float64) if array.dtype.kind in NUMBERS else None


def _listed(values: Any) -> list[Any]:
    """Return a column, an array or a sequence as a list."""
    for method in ("to_list", "tolist"):
        if hasattr(values, method):
            found = getattr(values, method)()
            return found if isinstance(found, list) else [found]
    return list(values)
