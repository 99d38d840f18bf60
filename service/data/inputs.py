"""Batches of x: rows of numbers, or records of named values, which a model's vocabulary turns into rows.

Batches are logged, compared and read again in these forms: rows for dense and sparse features, records for named
features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from hinged.frames import BadFrame
from hinged.service.data.classes import Label, label_key
from hinged.service.data.features.records import Record, pack_records, unpack_records
from hinged.service.data.slices import SPAN_VALUES, Slices
from hinged.solvers.core.families import NORM_MAX
from hinged.solvers.core.rows import Rows, joined

Array = np.ndarray[Any, Any]

ROWS = ("indptr", "indices", "values", "norms", "selves")

_EMPTY = hashlib.blake2b(digest_size=16)

NAMED_VALUES = 20  # a record counts as at least this many numbers

Refit = Callable[["Inputs"], "Inputs"]
"""A function that converts a batch to the form that a model's kernel and precision need. The function raises ValueError
if the conversion is impossible.
"""


@dataclass(frozen=True, slots=True)
class Records:
    """A batch of records with named values, in canonical form (records.py)."""

    records: tuple[Record, ...]

    def __len__(self) -> int:
        return len(self.records)

    def part(self, begin: int, end: int) -> Records:
        """Return records begin to end - 1 as a batch."""
        return Records(self.records[begin:end])

    def row(self, r: int) -> Records:
        """Return one record as a batch."""
        return Records(self.records[r : r + 1])

    def take(self, wanted: Sequence[int] | Array) -> Records:
        """Return the records with these indices as a batch."""
        return Records(tuple(self.records[r] for r in wanted))


Inputs: TypeAlias = Rows | Records


def sizes_of(inputs: Inputs) -> tuple[int, int]:
    """Return (numbers, characters): the rough amount of each in a batch."""
    if isinstance(inputs, Rows):
        return inputs.values.size, 0
    characters = sum(len(value) for record in inputs.records for value in record.values() if type(value) is str)
    return max(NAMED_VALUES * len(inputs.records), characters // 3), characters


def join_inputs(batches: Sequence[Inputs]) -> Inputs:
    """Join batches of the same form, in order. There must be at least one."""
    if isinstance(batches[0], Records):
        return Records(tuple(record for batch in batches for record in batch.records))  # type: ignore[union-attr]
    return joined(list(batches))  # type: ignore[arg-type]


def join_long(batches: Sequence[Inputs]) -> Slices[Inputs]:
    """Join batches in slices, because the first use of memory costs half a millisecond per MiB."""
    rows = [batch for batch in batches if isinstance(batch, Rows)]
    sizes = [each.values.size for each in rows]
    if sum(sizes) <= SPAN_VALUES:
        return join_inputs(batches)
    arrays: list[Array] = []
    for name in ("indices", "values"):
        parts = [getattr(each, name) for each in rows]
        found, end = np.empty(sum(sizes), np.result_type(*{part.dtype for part in parts})), 0
        for part in parts:
            for first in range(0, part.size, SPAN_VALUES):
                piece = part[first : first + SPAN_VALUES]
                found[end : end + piece.size] = piece
                end += piece.size
                yield
        arrays.append(found)
    ends = [each.indptr[1:] + before for each, before in zip(rows, np.cumsum([0, *sizes]), strict=False)]
    return Rows(
        np.concatenate(([0], *ends)),
        arrays[0],
        arrays[1],
        np.concatenate([each.norms for each in rows]),
        np.concatenate([each.selves for each in rows]),
        rows[0].dim,
        rows[0].measure if len({each.measure for each in rows}) == 1 else None,
    )


def inputs_state(inputs: Inputs) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a batch as facts and arrays of a frame."""
    if isinstance(inputs, Records):
        return {"records": pack_records(inputs.records)}, {}
    return {"dim": inputs.dim}, {name: getattr(inputs, name) for name in ROWS}


def read_inputs(facts: dict[str, Any], arrays: dict[str, Array]) -> Inputs:
    """Return the batch from a result of `inputs_state`."""
    if not isinstance(facts, dict):
        raise BadFrame(f"a batch must have facts by name, got {facts!r:.80}")
    if "records" in facts:
        return Records(tuple(unpack_records(facts["records"])))
    dim = facts.get("dim")
    if any(name not in arrays for name in ROWS) or type(dim) is not int or not 0 < dim < 2**31:
        raise BadFrame(f"a batch of rows must have dim, from 1 to 2^31 - 1, and {', '.join(ROWS)}")
    indptr, indices, values, norms, selves = (arrays[name] for name in ROWS)
    rows = Rows(indptr, indices, values, norms, selves, dim)
    if not _is_sound(rows):
        raise BadFrame(f"the arrays are not rows of {dim} features")
    return rows


def _is_sound(rows: Rows) -> bool:
    """Return whether the arrays are valid rows, because compiled code does not check bounds. Norms are only checked for
    range.
    """
    indptr, indices, values, norms = rows.indptr, rows.indices, rows.values, rows.norms
    if (indptr.dtype, indices.dtype) != (np.int64, np.int32) or values.dtype not in (np.float32, np.float64):
        return False
    if {norms.dtype, rows.selves.dtype} != {values.dtype} or indptr.ndim != 1 or indices.ndim != 1:
        return False
    if not (indptr.size and norms.shape == rows.selves.shape == (indptr.size - 1,) and values.shape == indices.shape):
        return False
    if indptr[0] != 0 or indptr[-1] != indices.size or (np.diff(indptr) < 0).any():
        return False
    if indices.size and not (indices.min() >= 0 and indices.max() < rows.dim):
        return False
    ascends = np.diff(indices) > 0
    begins = indptr[1:-1]
    ascends[begins[(begins > 0) & (begins < indices.size)] - 1] = True  # indices may decrease from one row to the next
    sizes = np.concatenate((norms, rows.selves))
    return bool(ascends.all() and np.isfinite(values).all() and ((sizes >= 0) & (sizes <= NORM_MAX)).all())


def x_digests(inputs: Inputs) -> list[bytes]:
    """Return 16 bytes for each x, which identify the x."""
    if isinstance(inputs, Records):
        texts = (json.dumps(r, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for r in inputs.records)
        return [_sixteen(text.encode()) for text in texts]
    indices, values = inputs.indices.tobytes(), inputs.values.tobytes()
    width = inputs.values.itemsize
    ends = inputs.indptr.tolist()
    return [
        _sixteen(indices[4 * first : 4 * last] + values[width * first : width * last]) for first, last in pairwise(ends)
    ]


def _sixteen(content: bytes) -> bytes:
    """Return the BLAKE2b digest of 16 bytes. Copying a hash object takes two thirds of the time of making one."""
    digest = _EMPTY.copy()
    digest.update(content)
    return digest.digest()


def content_of(x_digest: bytes, label: Label) -> bytes:
    """Return 16 bytes that identify an example by its x and y."""
    return _sixteen(x_digest + label_key(label).encode())


def refitted(x: Inputs, digest: bytes, refit: Refit) -> tuple[Inputs, bytes]:
    """Return a batch of one x in another form, and its new digest. The digest changes because the numbers differ in
    another precision.
    """
    fitted = refit(x)
    if fitted is x or isinstance(x, Records) or isinstance(fitted, Records) or fitted.values.dtype == x.values.dtype:
        return fitted, digest
    return fitted, x_digests(fitted)[0]


def contents_of(digests: Sequence[bytes], labels: Sequence[Label]) -> list[bytes]:
    """Return `content_of` for each example of a batch, in which a few labels repeat often."""
    kinds = list(zip(map(type, labels), labels, strict=True))  # True == 1, but their types differ
    keys = {kind: label_key(kind[1]).encode() for kind in set(kinds)}
    return [_sixteen(digest + keys[kind]) for digest, kind in zip(digests, kinds, strict=True)]
