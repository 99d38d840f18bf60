"""Arrays: a .npz file with features and labels, either dense or in CSR parts; or arrays in memory."""

from __future__ import annotations

import random
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from hinged.extras import needed
from hinged.readers.base import (
    Example,
    Label,
    ReadError,
    Source,
    label_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

# Number of rows that are turned into Python objects at a time.
BLOCK_ROWS = 256
CSR_PARTS = ("data", "indices", "indptr", "shape")


class ArrayRows:
    """The rows of an array (n, ...). Further axes, such as the axes of images, are flattened."""

    sparse = False

    def __init__(self, name: str, X: NDArray[Any]) -> None:
        if X.ndim < 2 or X.dtype.kind not in "biuf" or 0 in X.shape[1:]:
            raise ReadError(f"{name} must be rows of numbers, got {X.dtype} of shape {X.shape}")
        self._name = name
        self._X = X.reshape(len(X), -1)
        self.count, self.dim = self._X.shape

    def block(self, order: NDArray[np.intp]) -> list[Any]:
        """Yield the x of each row in `order`."""
        rows = self._X[order]
        if rows.dtype.kind == "b":
            rows = rows.astype(np.uint8)
        elif rows.dtype.kind == "f":
            rows = rows.astype(np.float64)
            _refuse_infinite(self._name, order, np.isfinite(rows).all(axis=1))
        return list(rows.tolist())

    def matrix(self) -> NDArray[Any]:
        """Return all rows."""
        return self._X


class SparseRows:
    """The rows of a matrix in CSR format (compressed sparse rows)."""

    sparse = True

    def __init__(self, name: str, parts: Sequence[NDArray[Any]]) -> None:
        data, indices, indptr, shape = parts
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or data.dtype.kind not in "biuf":
            raise ReadError(f"{name}_shape and {name}_data do not describe a matrix of numbers")
        self.count, self.dim = (int(size) for size in shape)
        whole = all(part.ndim == 1 and part.dtype.kind in "iu" for part in (indices, indptr))
        if not (
            whole
            and len(indptr) == self.count + 1
            and len(data) == len(indices)
            and indptr[0] == 0
            and indptr[-1] == len(indices)
            and bool((indptr[1:] >= indptr[:-1]).all())
            and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < self.dim))
        ):
            raise ReadError(f"{name}_data, _indices, _indptr and _shape contradict each other")
        self._name = name
        self._data = data.astype(np.float64) if data.dtype.kind in "bf" else data
        self._indices, self._indptr = indices, indptr

    def block(self, order: NDArray[np.intp]) -> list[Any]:
        """Yield the x of each row in `order`."""
        parts = [slice(int(self._indptr[row]), int(self._indptr[row + 1])) for row in order]
        finite = [bool(np.isfinite(self._data[part]).all()) for part in parts]
        _refuse_infinite(self._name, order, np.array(finite, dtype=np.bool_))
        return [{"indices": self._indices[part].tolist(), "values": self._data[part].tolist()} for part in parts]

    def matrix(self) -> Any:
        """Return all rows as a SciPy matrix."""
        return _csr((self._data, self._indices, self._indptr), (self.count, self.dim))


def _refuse_infinite(name: str, order: NDArray[np.intp], finite: NDArray[np.bool_]) -> None:
    if not finite.all():
        row = int(order[int(np.argmin(finite))])
        raise ReadError(f"{name}[{row}]: a value is not finite")


class ArraySource(Source):
    """Features and labels in memory."""

    def __init__(
        self,
        name: str,
        features: ArrayRows | SparseRows,
        labels: Sequence[Label],
        ids: Sequence[str] | None = None,
        held_out: ArraySource | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        if len(labels) != features.count:
            raise ReadError(f"{name}: {features.count} rows of features but {len(labels)} labels")
        if ids is not None and len(ids) != features.count:
            raise ReadError(f"{name}: {features.count} rows of features but {len(ids)} ids")
        self.name = name
        self.sparse, self.dim, self.rows = features.sparse, features.dim, features.count
        if weights is not None and len(weights) != features.count:
            raise ReadError(f"{name}: {features.count} rows of features but {len(weights)} weights")
        self._features, self._labels, self._ids, self._weights = features, labels, ids, weights
        self.held_out = held_out

    def __iter__(self) -> Iterator[Example]:
        return self._in_order(np.arange(self.rows))

    def shuffled(self, seed: int) -> Iterator[Example]:
        """Yield the examples in a random order that the seed determines."""
        order = list(range(self.rows))
        random.Random(seed).shuffle(order)  # noqa: S311 - only an order, not a secret
        return self._in_order(np.array(order, dtype=np.intp))

    @property
    def labels(self) -> NDArray[Any]:
        """Return the labels of all rows."""
        return np.array(self._labels)

    def matrix(self) -> Any:
        """Return the features as they are in memory. Sparse features are returned as a SciPy matrix."""
        return self._features.matrix()

    def _in_order(self, order: NDArray[np.intp]) -> Iterator[Example]:
        for start in range(0, len(order), BLOCK_ROWS):
            block = order[start : start + BLOCK_ROWS]
            for row, x in zip(block.tolist(), self._features.block(block), strict=True):
                weight = None if self._weights is None else self._weights[row]
                name = None if self._ids is None else self._ids[row]
                yield Example(row + 1, x, self._labels[row], name, weight=weight)


def arrays_of(source: Source, dim: int | None = None) -> tuple[Any, NDArray[Any]]:
    """Return X and y of a whole file, for an estimator. Raise ReadError if an x is not a row of numbers.

    dim: minimum number of columns of sparse rows, so that a test part has as many columns as the training part.
    """
    if isinstance(source, ArraySource):
        found = source.matrix()
        if source.sparse and dim is not None and dim > source.dim:
            found.resize(len(source.labels), dim)
        return found, source.labels
    if source.named:
        raise ReadError(f"{source.name} has features that are not numbers: estimators take rows of numbers")
    examples = list(source)
    y = np.array([example.y for example in examples])
    if not source.sparse:
        return np.array([example.x for example in examples], np.float64), y
    sizes = [len(example.x["indices"]) for example in examples]
    indptr = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    indices = np.fromiter((k for example in examples for k in example.x["indices"]), np.int64, indptr[-1])
    values = np.fromiter((v for example in examples for v in example.x["values"]), np.float64, indptr[-1])
    return _csr((values, indices, indptr), (len(examples), max(source.dim, dim or 0))), y


def _csr(parts: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], shape: tuple[int, int]) -> Any:
    with needed("sklearn", "a sparse matrix"):
        from scipy import sparse  # noqa: PLC0415  only sparse rows need it
    return sparse.csr_matrix(parts, shape=shape)


SCIPY = {"format", "shape", "data"}
"""The names of the arrays in a file that scipy.sparse.save_npz wrote."""


def open_npz(
    path: Path,
    *,
    label: str | None = None,
    ids: str | None = None,
    weights: str | None = None,
    labels_file: Path | None = None,
) -> ArraySource:
    """Read an array of labels (y_train or y by default), the features that belong to it, and the test part.

    The features for `y` are `X`, or its CSR parts `X_data`, `X_indices`, `X_indptr` and `X_shape`. The test part for
    `y_train` is `y_test`. A SciPy matrix has no labels, so `labels_file` names the file with its labels.
    """
    try:
        # A .npz file is a zip file. np.load alone would also accept a single array or a pickle.
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as arrays:
            if set(arrays) >= SCIPY:
                return _scipy_matrix(path, arrays, weights, labels_file)
            if label is None:
                label = "y_train" if "y_train" in arrays else "y"
            test_label = label.replace("train", "test")
            test = None
            if test_label != label and test_label in arrays and _features_name(test_label, arrays):
                test = _part(path, arrays, test_label, None, None, None)
            return _part(path, arrays, label, ids, weights, test)
    except ReadError:
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ReadError(f"cannot read {path} as .npz: {error}") from error


def _scipy_matrix(
    path: Path, arrays: Mapping[str, NDArray[Any]], weights: str | None, labels_file: Path | None
) -> ArraySource:
    if weights is not None:
        raise ReadError(f"{path} is a SciPy matrix without weights")
    if labels_file is None:
        raise ReadError(
            f"{path} is a SciPy matrix without labels: name a file of labels with --labels, .npy or one label a line"
        )
    parts = [arrays[name] for name in CSR_PARTS if name in arrays]
    if arrays["format"].item() != b"csr":
        with needed("sklearn", "a matrix that is not in CSR format"):
            from scipy import sparse  # noqa: PLC0415  only sparse rows need it
        matrix = sparse.load_npz(path).tocsr()
        parts = [matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape)]
    return ArraySource(path.name, SparseRows(str(path), parts), read_labels(labels_file))


def read_labels(path: Path) -> list[Label]:
    """Return the labels from a .npy file, or from a text file with one label per line."""
    try:
        if path.suffix == ".npy":
            return labels_of(str(path), np.load(path, allow_pickle=False))
        return [label_of(line.strip()) for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise ReadError(f"cannot read labels of {path}: {error}") from error


def _part(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    label: str,
    ids: str | None,
    weights: str | None,
    held_out: ArraySource | None,
) -> ArraySource:
    listed = ", ".join(arrays) or "none"
    for name in (label, *(name for name in (ids, weights) if name is not None)):
        if name not in arrays:
            raise ReadError(f"{path} has no array {name!r}; its arrays are {listed}")
    features_name = _features_name(label, arrays)
    if features_name is None:
        raise ReadError(
            f"{path}: no features for the labels {label!r}: their array would be "
            f"{_renamed(label)!r}; its arrays are {listed}"
        )
    place = f"{path}, {features_name}"
    features: ArrayRows | SparseRows
    if features_name in arrays:
        features = ArrayRows(place, arrays[features_name])
    else:
        features = SparseRows(place, [arrays[f"{features_name}_{part}"] for part in CSR_PARTS])
    names = None if ids is None else [str(name) for name in labels_of(f"{path}, {ids}", arrays[ids])]
    own = None if weights is None else _weights(f"{path}, {weights}", arrays[weights])
    return ArraySource(path.name, features, labels_of(f"{path}, {label}", arrays[label]), names, held_out, own)


def _weights(name: str, array: NDArray[Any]) -> list[float]:
    """Return the weights in an array. Raise ReadError unless each is a finite number > 0."""
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ReadError(f"{name} must hold one number for each row, got {array.dtype} of shape {array.shape}")
    values = array.astype(np.float64)
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        raise ReadError(f"{name}[{int(np.argmax(wrong))}]: a weight must be a number > 0, got {values[wrong][0]}")
    return values.tolist()  # type: ignore[no-any-return]


def _renamed(label: str) -> str:
    return label.replace("y", "X", 1)


def _features_name(label: str, arrays: Mapping[str, NDArray[Any]]) -> str | None:
    name = _renamed(label)
    if name == label:
        return None
    return name if name in arrays or all(f"{name}_{part}" in arrays for part in CSR_PARTS) else None


def labels_of(name: str, array: NDArray[Any]) -> list[Label]:
    """Return the labels in an array. Whole numbers and booleans stay as they are; anything else becomes a string."""
    values = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if values.ndim != 1:
        raise ReadError(f"{name} must hold one value for each row, got shape {array.shape}")
    kind = values.dtype.kind
    if kind in "biu":
        return list(values.tolist())
    if kind == "f":
        if not np.isfinite(values).all():
            raise ReadError(f"{name}[{int(np.argmin(np.isfinite(values)))}]: the value is not finite")
        numbers = values.astype(np.float64).tolist()
        return [int(number) if number.is_integer() else repr(number) for number in numbers]
    if kind == "S":
        values = np.char.decode(values, "utf-8")
    elif kind != "U":
        raise ReadError(f"{name} must be numbers, booleans or strings, got {array.dtype}")
    return [str(value) for value in values]
