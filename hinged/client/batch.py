"""Rows of numbers as bytes, which routes accept instead of JSON (docs/reference/http.md, "Rows as bytes")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hinged.frames import encode

FLOATS = ("float32", "float64")


ROWS_MAX = 10_000
BYTES_MAX = 16 * 2**20
"""Maximum number of rows in one request, and maximum number of bytes in their arrays. A server with lower limits
refuses the request, and its error names the limits.
"""


class RowsSent:
    """Rows to send: their features, labels and ids, and what people see of them.

    Parameters
    ----------
    X : array or SciPy sparse matrix, shape (m, dim)
    y : m labels, or None
    ids : m strings, or None
    shows : m values that people see instead of x, None for x itself
    weights : m numbers > 0, the examples' own factors of C, or None

    Raises
    ------
    ValueError
        If their lengths differ.
    """

    def __init__(
        self,
        X: Any,
        y: Sequence[Any] | None = None,
        ids: Sequence[str | None] | None = None,
        shows: Sequence[Any] | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        self._sparse = X.tocsr() if hasattr(X, "tocsr") else None
        self._dense = None if self._sparse is not None else _floats(np.asarray(X))
        if self._dense is not None and self._dense.ndim != 2:
            raise ValueError(f"X must have two axes (rows, features), got {self._dense.ndim}")
        self._rows = int((X if self._dense is None else self._dense).shape[0])
        for name, given in (("y", y), ("ids", ids), ("shows", shows), ("weights", weights)):
            if given is not None and len(given) != self._rows:
                raise ValueError(f"{name} must have one entry for each of the {self._rows} rows of X, got {len(given)}")
        self._labels = None if y is None else y.tolist() if hasattr(y, "tolist") else list(y)
        self._ids, self._shows = ids, shows
        self._weights = None if weights is None else _floats(np.asarray(weights))

    def __len__(self) -> int:
        return self._rows

    def end(self, begin: int, rows_max: int) -> int:
        """Return the end of the next request, which begins at row `begin`. A request has at least one row and at most
        `rows_max` rows.
        """
        most = min(self._rows, begin + rows_max)
        if self._sparse is not None:
            ends = self._sparse.indptr
            width = self._sparse.data.itemsize + ends.itemsize
            fits = int(np.searchsorted(ends, ends[begin] + BYTES_MAX // width, side="right")) - 1
        else:
            assert self._dense is not None  # noqa: S101  one of the two is set
            fits = begin + BYTES_MAX // max(1, self._dense.itemsize * self._dense.shape[1])
        return min(most, max(fits, begin + 1))

    def packed(self, begin: int, end: int) -> bytes:
        """Return rows begin to end - 1 as bytes."""
        facts: dict[str, Any] = {}
        if self._sparse is not None:
            X = self._sparse[begin:end]
            arrays = {"indptr": _integers(X.indptr), "indices": _integers(X.indices), "values": _floats(X.data)}
        else:
            assert self._dense is not None  # noqa: S101  one of the two is set
            arrays = {"x": self._dense[begin:end]}
        if self._ids is not None:
            facts["ids"] = list(self._ids[begin:end])
        if self._shows is not None:
            facts["shows"] = list(self._shows[begin:end])
        if self._labels is not None:
            labels = self._labels[begin:end]
            kinds = list(zip(map(type, labels), labels, strict=True))  # True == 1, but they are two labels
            numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
            facts["labels"] = [label for _, label in numbers]
            arrays["y"] = np.array([numbers[kind] for kind in kinds], np.int32)
        if self._weights is not None:
            arrays["weights"] = self._weights[begin:end]
        return encode("batch", facts, arrays, checksum=False)  # TCP has its own checksum


def pack(
    X: Any,
    y: Sequence[Any] | None = None,
    ids: Sequence[str | None] | None = None,
    shows: Sequence[Any] | None = None,
    weights: Sequence[float] | None = None,
) -> bytes:
    """Return a batch as the bytes of one request. Raise ValueError if the lengths of its parts differ."""
    batch = RowsSent(X, y, ids, shows, weights)
    return batch.packed(0, len(batch))


def _floats(array: Any) -> Any:
    return array if array.dtype.name in FLOATS else array.astype(np.float64)


def _integers(array: Any) -> Any:
    return array if array.dtype.name in ("int32", "int64") else array.astype(np.int64)
