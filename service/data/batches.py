"""Batches of examples as bytes. A client that has rows of numbers can send them as bytes instead of JSON. The server
reads the bytes in a tenth of the time.

A body is a frame (hinged/frames.py) of kind "batch". The frame has an array y (m,), which indexes the labels in the
facts. For x, the frame has an array x (m, dim), or the arrays indptr, indices and values of m sparse rows. An
array weights (m,) of float32 or float64 holds the examples' own factors of C. The facts also contain `ids`, a list of m
texts or nulls, and `shows`, a list of what people see of each candidate, or null.
docs/reference/http.md describes each byte. As in examples.py, everything is checked here before other code sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError, with_config
from pydantic_core import from_json
from typing_extensions import TypedDict

from hinged.frames import SHOWN, BadFrame, check_sent, contents, opened
from hinged.service.data.classes import Label, check_label
from hinged.service.data.examples import STRICT, Raw, Y, check_ids, check_show
from hinged.service.data.features.rows import dense_rows, sparse_rows
from hinged.service.data.inputs import join_long
from hinged.service.data.parts import Configuration
from hinged.service.data.problems import first_problem
from hinged.service.data.slices import Slices, spans
from hinged.service.data.trees import SMALL_BYTES, tree
from hinged.service.errors import Invalid
from hinged.service.settings import Settings
from hinged.solvers.core.rows import BadRow, Rows

Array = np.ndarray[Any, Any]

KIND = "batch"
NONE = -1
"""Value of y for an unknown label."""

FLOATS = (np.float32, np.float64)
INTEGERS = (np.int32, np.int64)
ARRAYS_MAX = FACTS_MAX = 16
"""Maximum number of arrays, and of facts, in a batch. A valid batch has fewer. Each array and each fact is checked, so
the limit also bounds the time of the check.
"""
SHOWS = 50  # number of values of `show` that are checked in one step, which takes a millisecond
SPARSE = ("indptr", "indices", "values")


@with_config(STRICT)
class BatchFacts(TypedDict):
    """The facts of a batch, which accompany its arrays."""

    ids: NotRequired[Annotated[list[str | None], Field(fail_fast=True)] | None]
    labels: NotRequired[Annotated[list[Y], Field(fail_fast=True)]]
    shows: NotRequired[list[Any]]


FACTS: TypeAdapter[BatchFacts] = TypeAdapter(BatchFacts)


@dataclass(frozen=True, slots=True)
class Batch:
    """Checked examples, in order. labels: None where unknown. ids: None where the client gave no id.

    shows: what people see instead of x, None where people see x itself. Empty if the batch has no shows.
    weights: the examples' own factors of C. Empty if the batch has no weights.
    """

    ids: list[str | None]
    labels: list[Label | None]
    rows: Rows
    shows: Sequence[Any] = ()
    weights: Sequence[float] = ()


def read_batch(body: Raw, configuration: Configuration, settings: Settings, labelled: bool | None) -> Slices[Batch]:
    """Return the examples of a body. The error Invalid says which example is wrong, and how.

    labelled: whether each example must have a label (True), none may have a label (False), or some may (None).
    """
    if not configuration.features.IN_ROWS:
        raise Invalid("a batch must hold rows of numbers; send named features and texts as JSON")
    try:
        yield from check_sent(body)
        header = yield from _header(opened(body)[0], settings)
        yield
        told, arrays = contents(body, header, KIND)
        facts = FACTS.validate_python(told)
    except BadFrame as error:
        raise Invalid(f"the body is not a batch: {error}") from None
    except ValidationError as error:
        raise Invalid(f"the batch's facts: {first_problem(error, FACTS)}") from None
    yield
    m = _check_names(arrays, labelled)
    if not 1 <= m <= settings.batch_examples_max:
        most = settings.batch_examples_max  # the error names it, so that a client can send this many
        raise Invalid(f"examples must be 1 to {most}, got {m}", examples_max=most)
    _check_indptr(arrays)
    given = facts.get("ids")
    ids: list[str | None] = [None] * m if given is None else given
    if len(ids) != m:
        raise Invalid(f"ids must have an entry for each example, {m}, got {len(ids)}")
    check_ids(ids)
    yield
    labels = _labels(facts.get("labels", []), arrays.get("y"), m, labelled)
    yield
    weights = _weights(arrays.get("weights"), m)
    yield
    shows = yield from _shows(facts, m, candidates=labelled is None)
    rows = yield from _rows(arrays, configuration)
    return Batch(ids, labels, rows, shows, weights)


def _header(text: memoryview, settings: Settings) -> Slices[Any]:
    """Return the parsed header. The number of ids is at most the maximum number of examples in a batch."""
    if len(text) > SMALL_BYTES:
        most = settings.batch_examples_max
        yield
        header = yield from tree(text, {"": most, "arrays": ARRAYS_MAX, "shows": most})
    else:
        try:
            header = from_json(bytes(text))
        except ValueError as error:
            raise BadFrame(f"the header is not JSON: {error}") from None
    if isinstance(header, dict) and isinstance(facts := header.get("facts"), dict) and len(facts) > FACTS_MAX:
        raise BadFrame(f"a batch may have at most {FACTS_MAX} facts, got {len(facts)}")
    return header


def _shows(facts: BatchFacts, m: int, *, candidates: bool) -> Slices[list[Any]]:
    if "shows" not in facts:
        return []
    shows = facts["shows"]
    if not candidates:
        raise Invalid("shows are for candidates of the pool; learn and predict do not take them")
    if len(shows) != m:
        raise Invalid(f"shows must have an entry for each example, {m}, got {len(shows)}")
    for index, show in enumerate(shows):
        check_show(show, index)
        if not index % SHOWS:
            yield
    return shows


def _check_names(arrays: dict[str, Array], labelled: bool | None) -> int:
    """Check that a batch has the right arrays. Return the number of examples."""
    x = SPARSE if "x" not in arrays else ("x",)
    wanted = {*x, *(("y",) if labelled or (labelled is None and "y" in arrays) else ())}
    if set(arrays) - ({"weights"} if labelled else set()) != wanted:
        y = "" if labelled is False else ", y, and perhaps weights" if labelled else ", and perhaps y"
        got = ", ".join(name[:SHOWN] for name in arrays)
        raise Invalid(f"a batch must have the array x, or {', '.join(SPARSE)}{y}; got {got[:200]}")
    if "x" in arrays:
        _check(arrays, "x", FLOATS, 2)
        return len(arrays["x"])
    for name, dtypes in (("indptr", INTEGERS), ("indices", INTEGERS), ("values", FLOATS)):
        _check(arrays, name, dtypes, 1)
    return len(arrays["indptr"]) - 1


def _check_indptr(arrays: dict[str, Array]) -> None:
    if "x" in arrays:
        return
    indptr, nnz = arrays["indptr"], arrays["values"].size
    if not indptr.size or indptr[0] != 0 or indptr[-1] != nnz or (indptr[1:] < indptr[:-1]).any():
        raise Invalid(f"indptr must begin with 0, never fall and end with the number of values, {nnz}")
    if arrays["indices"].size != nnz:
        raise Invalid(f"indices must have an entry for each value, {nnz}, got {arrays['indices'].size}")


def _check(arrays: dict[str, Array], name: str, dtypes: Sequence[type], axes: int) -> None:
    array = arrays[name]
    if array.dtype not in dtypes or array.ndim != axes:
        allowed = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise Invalid(f"{name} must be {allowed} with {axes} axes, got {array.dtype.name} with {array.ndim}")


def _labels(known: list[Label], y: Array | None, m: int, labelled: bool | None) -> list[Label | None]:
    for index, label in enumerate(known):
        check_label(label, f"labels[{index}]")
    if y is None:
        return [None] * m
    _check({"y": y}, "y", INTEGERS, 1)
    if y.size != m:
        raise Invalid(f"y must have an entry for each example, {m}, got {y.size}")
    least = NONE if labelled is None else 0
    outside = (y < least) | (y >= len(known))
    if outside.any():
        r = int(outside.argmax())
        raise Invalid(
            f"examples[{r}].y: must be from {least} to {len(known) - 1}, an index into labels, got {y[r]}", index=r
        )
    by_number = [*known, None]
    return [by_number[number] for number in y.tolist()]


def _weights(weights: Array | None, m: int) -> list[float]:
    if weights is None:
        return []
    _check({"weights": weights}, "weights", FLOATS, 1)
    if weights.size != m:
        raise Invalid(f"weights must have an entry for each example, {m}, got {weights.size}")
    wrong = ~((weights > 0) & np.isfinite(weights))
    if wrong.any():
        r = int(wrong.argmax())
        raise Invalid(f"examples[{r}].weight: must be > 0 and finite, got {weights[r]}", index=r)
    return weights.astype(np.float64).tolist()  # type: ignore[no-any-return]


def _rows(arrays: dict[str, Array], configuration: Configuration) -> Slices[Rows]:
    found = []
    x = arrays.get("x")
    if x is None:
        indptr, indices, values = (arrays[name] for name in SPARSE)
    else:
        indptr = np.arange(len(x) + 1) * x.shape[1]
    for begin, end in spans(indptr):
        try:
            if x is not None:
                found.append(dense_rows(x[begin:end], configuration))
            else:
                first, last = indptr[begin], indptr[end]
                part = indptr[begin : end + 1] - first
                found.append(sparse_rows(part, indices[first:last], values[first:last], configuration))
        except BadRow as error:
            r = error.row + begin
            raise Invalid(f"examples[{r}].x: {error.reason}", index=r) from None
        yield
    return (yield from join_long(found))  # type: ignore[return-value]
