"""Examples as they come off the wire, and as rows of numbers.

x is an array of numbers (dense) or {"indices": [...], "values": [...]} (sparse); a model takes either form. What is
learned, stored and compared is one canonical form: the non-zero features in ascending order, in the model's
precision. So the same point spelled in two ways is the same content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Generic, NotRequired

import numpy as np
from pydantic import (
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    with_config,
)

# pydantic needs typing_extensions' TypedDict below Python 3.12; type variables have defaults from 3.13 on
from typing_extensions import TypedDict, TypeVar

from service.errors import Invalid
from service.labels import Label, label_key
from service.parts import Configuration, place, shown
from service.records import RecordX
from solvers.rows import BadRow, Rows, rows_from_csr, rows_from_dense

SERVER_ID = "@"
"""Ids that the server gives begin with this; the number of the example follows."""

_STRICT = ConfigDict(extra="forbid", strict=True)

# The first wrong element refuses a body; a list of millions of complaints would fill the memory.
Numbers = Annotated[list[float], Field(fail_fast=True)]
Index = Annotated[int, Field(ge=0, lt=2**31)]


@with_config(_STRICT)
class SparseX(TypedDict):
    """A sparse row."""

    indices: Annotated[list[Index], Field(fail_fast=True)]
    values: Numbers


X = Numbers | SparseX
XT = TypeVar("XT", default=X)
"""The form of x that the model's features ask for: X, or RecordX where they are named."""

Y = StrictBool | StrictInt | StrictStr


@with_config(_STRICT)
class LabelledExample(TypedDict, Generic[XT]):
    """One example to learn."""

    x: XT
    y: Y
    id: NotRequired[str | None]


@with_config(_STRICT)
class UnlabelledExample(TypedDict, Generic[XT]):
    """One example to predict."""

    x: XT
    id: NotRequired[str | None]


@with_config(_STRICT)
class LearnBody(TypedDict, Generic[XT]):
    """Several examples under `examples`, or the parts of one."""

    examples: NotRequired[Annotated[list[LabelledExample[XT]], Field(fail_fast=True)]]
    x: NotRequired[XT]
    y: NotRequired[Y]
    id: NotRequired[str | None]


@with_config(_STRICT)
class PredictBody(TypedDict, Generic[XT]):
    """Several examples under `examples`, or the parts of one."""

    examples: NotRequired[Annotated[list[UnlabelledExample[XT]], Field(fail_fast=True)]]
    x: NotRequired[XT]
    id: NotRequired[str | None]


# By whether features are named.
_LEARN: dict[bool, TypeAdapter[Any]] = {False: TypeAdapter(LearnBody), True: TypeAdapter(LearnBody[RecordX])}
_PREDICT: dict[bool, TypeAdapter[Any]] = {False: TypeAdapter(PredictBody), True: TypeAdapter(PredictBody[RecordX])}
_X: dict[bool, TypeAdapter[Any]] = {
    False: TypeAdapter(X, config=ConfigDict(strict=True)),
    True: TypeAdapter(RecordX),
}


def parse_learn(body: bytes, examples_max: int, *, named: bool = False) -> list[LabelledExample]:
    """The labelled examples of a body; named: x is a record. Invalid says which one is wrong and why."""
    return _examples(_LEARN[named], body, ("x", "y"), examples_max)


def parse_predict(body: bytes, examples_max: int, *, named: bool = False) -> list[UnlabelledExample]:
    """The examples of a body; named: x is a record. Invalid says which one is wrong and why."""
    return _examples(_PREDICT[named], body, ("x",), examples_max)


def parse_x(text: str, *, named: bool = False) -> Any:
    """One x as JSON, for a query string."""
    try:
        return _X[named].validate_json(text)
    except ValidationError as error:
        raise Invalid(f"x: {_problem(error)}") from None


def _examples(adapter: TypeAdapter[Any], body: bytes, parts: tuple[str, ...], examples_max: int) -> list[Any]:
    try:
        parsed = adapter.validate_json(body)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = problem["loc"]
        details = {"index": place[1]} if len(place) > 1 and place[0] == "examples" else {}
        raise Invalid(_problem(error), **details) from None
    if "examples" not in parsed:
        missing = [part for part in parts if part not in parsed]
        if missing:
            raise Invalid(f"send either examples, or one example with {' and '.join(parts)}; {missing[0]} is missing")
        return [parsed]
    if len(parsed) > 1:
        raise Invalid("send either examples, or one example bare, not both")
    examples = parsed["examples"]
    if not 1 <= len(examples) <= examples_max:
        raise Invalid(f"examples must be 1 to {examples_max}, got {len(examples)}")
    return list(examples)


def _problem(error: ValidationError) -> str:
    # x and y may be of several forms: pydantic reports each; the one that got furthest is what was meant.
    problems = error.errors(include_url=False)
    problem = max(problems, key=lambda p: len(p["loc"]))
    loc = tuple(p for p in problem["loc"] if p not in ("list[float]", "SparseX", "bool", "int", "str"))
    if problem["type"] == "record":
        return f"{place(loc)}: {problem['msg']}".removeprefix(": ")
    if loc and loc[-1] == "y" and problem["type"] != "missing":
        return f"{place(loc)}: a label is a string, an integer or a boolean, got {shown(problem['input'])}"
    if loc and loc[-1] == "x" and problem["type"] != "missing":
        return (
            f'{place(loc)}: x is an array of numbers or {{"indices": [...], "values": [...]}}, '
            f"got {shown(problem['input'])}"
        )
    return f"{place(loc) or 'body'}: {problem['msg']}, got {shown(problem['input'])}"


def check_ids(ids: Sequence[str | None], chars_max: int) -> None:
    """Refuse ids that are empty, too long, or hold control characters."""
    for index, given in enumerate(ids):
        if given is not None and not (0 < len(given) <= chars_max and given.isprintable()):
            raise Invalid(
                f"examples[{index}].id: an id has 1 to {chars_max} printable characters, got {given[:80]!r}",
                index=index,
            )


def to_rows(xs: Sequence[Any], configuration: Configuration) -> Rows:
    """The canonical rows of a batch. Invalid says which example is wrong and why."""
    dim, dtype, kernel = configuration.features.dim, configuration.dtype, configuration.kernel.build()
    try:
        if all(isinstance(x, list) and len(x) == dim for x in xs):
            return rows_from_dense(np.array(xs, np.float64), kernel, dim, dtype)
        indices, values, lengths = [], [], []
        for index, x in enumerate(xs):
            if isinstance(x, list):
                if len(x) != dim:
                    raise BadRow(index, f"expected {dim} features, got {len(x)}")  # noqa: TRY301
                indices.append(np.arange(dim))
                values.append(np.array(x, np.float64))
            else:
                if len(x["indices"]) != len(x["values"]):
                    raise BadRow(  # noqa: TRY301
                        index, f"{len(x['indices'])} indices, but {len(x['values'])} values"
                    )
                indices.append(np.array(x["indices"], np.int64))
                values.append(np.array(x["values"], np.float64))
            lengths.append(values[-1].size)
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        return rows_from_csr(indptr, np.concatenate(indices), np.concatenate(values), kernel, dim, dtype)
    except BadRow as error:
        raise Invalid(f"examples[{error.row}].x: {error.reason}", index=error.row) from None


def digests(rows: Rows, labels: Sequence[Label]) -> list[bytes]:
    """16 bytes for each example that tell its content (x in canonical form, and y) from any other's."""
    found = []
    for r, label in enumerate(labels):
        first, last = rows.indptr[r], rows.indptr[r + 1]
        content = hashlib.blake2b(label_key(label).encode(), digest_size=16)
        content.update(b"\0" + rows.indices[first:last].tobytes() + rows.values[first:last].tobytes())
        found.append(content.digest())
    return found


def mean_scale(xs: Sequence[Any]) -> float:
    """gamma as scikit-learn's "scale": 1 / (dim * variance of all entries), from the first examples.

    For sparse rows 1 / mean |x|^2, which is the same where the mean is near 0.
    """
    if all(isinstance(x, list) for x in xs):
        entries = np.array([v for x in xs for v in x], np.float64)
        spread = len(xs[0]) * float(entries.var()) if entries.size else 0.0
    else:
        rows = [x if isinstance(x, list) else x["values"] for x in xs]
        spread = float(np.mean([np.square(np.array(row, np.float64)).sum() for row in rows]))
    return 1.0 / spread if 0 < spread < 1e15 else 1.0
