"""Batches of examples as bytes: what a client of rows sends instead of JSON, at a tenth of the time to read it.

A body is a frame (hinged/frames.py) of kind "batch". Its arrays are x (m, dim), or indptr, indices and values of m
sparse rows, and y (m,), which numbers the facts' labels; the facts' ids are m texts or nulls, their shows what each
candidate is shown as, or null. docs/http.md tells each byte. All is checked here, as in examples.py, before anything
else sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.frames import BadFrame, decode
from hinged.service.data.classes import Label, check_label
from hinged.service.data.examples import STRICT, Y, check_ids, check_show
from hinged.service.data.parts import Configuration
from hinged.service.data.problems import first_problem
from hinged.service.data.rows import dense_rows, sparse_rows
from hinged.service.errors import Invalid
from hinged.service.settings import Settings
from hinged.solvers.core.rows import BadRow, Rows

Array = np.ndarray[Any, Any]

MEDIA_TYPE = "application/vnd.hinged.batch"
KIND = "batch"
NONE = -1
"""In y: no label is known."""

FLOATS = (np.float32, np.float64)
INTEGERS = (np.int32, np.int64)
SPARSE = ("indptr", "indices", "values")


@with_config(STRICT)
class BatchFacts(TypedDict):
    """What a batch says besides its arrays."""

    ids: NotRequired[Annotated[list[str | None], Field(fail_fast=True)] | None]
    labels: NotRequired[Annotated[list[Y], Field(fail_fast=True)]]
    shows: NotRequired[list[Any]]


FACTS: TypeAdapter[BatchFacts] = TypeAdapter(BatchFacts)


@dataclass(frozen=True, slots=True)
class Batch:
    """Checked examples, in order; labels are None where none is known, ids where the client gave none.

    shows: what candidates are shown as, None where it is x; empty where nothing is said of it.
    """

    ids: list[str | None]
    labels: list[Label | None]
    rows: Rows
    shows: Sequence[Any] = ()


def read_batch(body: bytes, configuration: Configuration, settings: Settings, labelled: bool | None) -> Batch:
    """The examples of a body. Invalid says what is wrong with which one.

    labelled: whether each must have a label (True), none may (False), or some (None).
    """
    if configuration.features.type in ("named", "text"):
        raise Invalid("a batch holds rows of numbers; named features and texts are sent as JSON")
    try:
        told, arrays = decode(body, KIND, sent=True)
        facts = FACTS.validate_python(told)
    except BadFrame as error:
        raise Invalid(f"the body is no batch: {error}") from None
    except ValidationError as error:
        problem = first_problem(error, FACTS).encode(errors="replace").decode()  # what it shows may be half a character
        raise Invalid(f"the batch's facts: {problem}") from None
    m = _check_names(arrays, labelled)
    if not 1 <= m <= settings.batch_examples_max:
        raise Invalid(f"examples must be 1 to {settings.batch_examples_max}, got {m}")
    given = facts.get("ids")
    ids: list[str | None] = [None] * m if given is None else given
    if len(ids) != m:
        raise Invalid(f"ids must be as many as the examples, {m}, got {len(ids)}")
    check_ids(ids)
    labels = _labels(facts.get("labels", []), arrays.get("y"), m, labelled)
    return Batch(ids, labels, _rows(arrays, configuration), _shows(facts, m, candidates=labelled is None))


def _shows(facts: BatchFacts, m: int, *, candidates: bool) -> list[Any]:
    if "shows" not in facts:
        return []
    shows = facts["shows"]
    if not candidates:
        raise Invalid("shows belong to candidates of the pool; learn and predict take none")
    if len(shows) != m:
        raise Invalid(f"shows must be as many as the examples, {m}, got {len(shows)}")
    for index, show in enumerate(shows):
        check_show(show, index)
    return shows


def _check_names(arrays: dict[str, Array], labelled: bool | None) -> int:
    """The number of examples, once the arrays are those that a batch may have."""
    x = SPARSE if "x" not in arrays else ("x",)
    wanted = {*x, *(("y",) if labelled or (labelled is None and "y" in arrays) else ())}
    if set(arrays) != wanted:
        y = "" if labelled is False else ", and y" if labelled else ", and perhaps y"
        raise Invalid(f"a batch has the array x, or {', '.join(SPARSE)}{y}; got {str(list(arrays))[:200]}")
    if "x" in arrays:
        _check(arrays, "x", FLOATS, 2)
        return len(arrays["x"])
    for name, dtypes in (("indptr", INTEGERS), ("indices", INTEGERS), ("values", FLOATS)):
        _check(arrays, name, dtypes, 1)
    indptr, nnz = arrays["indptr"], arrays["values"].size
    if not indptr.size or indptr[0] != 0 or indptr[-1] != nnz or (indptr[1:] < indptr[:-1]).any():
        raise Invalid(f"indptr must begin with 0, never fall and end with the number of values, {nnz}")
    if arrays["indices"].size != nnz:
        raise Invalid(f"indices must be as many as the values, {nnz}, got {arrays['indices'].size}")
    return len(indptr) - 1


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
        raise Invalid(f"y must be as many as the examples, {m}, got {y.size}")
    least = NONE if labelled is None else 0
    outside = (y < least) | (y >= len(known))
    if outside.any():
        r = int(outside.argmax())
        raise Invalid(
            f"examples[{r}].y: must be from {least} to {len(known) - 1}, a label's place; got {y[r]}", index=r
        )
    by_number = [*known, None]
    return [by_number[number] for number in y.tolist()]


def _rows(arrays: dict[str, Array], configuration: Configuration) -> Rows:
    try:
        if "x" in arrays:
            return dense_rows(arrays["x"], configuration)
        return sparse_rows(arrays["indptr"], arrays["indices"], arrays["values"], configuration)
    except BadRow as error:
        raise Invalid(f"examples[{error.row}].x: {error.reason}", index=error.row) from None
