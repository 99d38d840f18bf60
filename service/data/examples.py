"""Examples as they come off the wire, and as rows of numbers.

x is an array of numbers (dense) or {"indices": [...], "values": [...]} (sparse); a model takes either form. What is
learned, stored and compared is one canonical form: the non-zero features in ascending order, in the model's
precision. So the same point spelled in two ways is the same content.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired

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
from pydantic_core import PydanticCustomError

# pydantic needs typing_extensions' TypedDict below Python 3.12; type variables have defaults from 3.13 on
from typing_extensions import TypedDict, TypeVar

from hinged.service import limits
from hinged.service.data.classes import Label
from hinged.service.data.inputs import (
    Inputs,
    Records,
    contents_of,
    x_digests,
)
from hinged.service.data.parts import Configuration, Features, NamedFeatures, TextFeatures
from hinged.service.data.problems import UNKNOWN, place, sentence_of, shown
from hinged.service.data.records import (
    STRING_CHARS_MAX,
    TEXT,
    TEXT_CHARS_MAX,
    Form,
    Record,
    RecordX,
    TextX,
    canonical,
    text_record,
    too_long,
)
from hinged.service.data.rows import dense_rows, sparse_rows
from hinged.service.errors import Invalid
from hinged.solvers.core.rows import BadRow, Rows

SERVER_ID = "@"
"""Ids that the server gives begin with this; the number of the example follows."""

SHOW_BYTES_MAX = 4096  # of what a candidate is shown as

STRICT = ConfigDict(extra="forbid", strict=True)

# The first wrong element refuses a body; a list of millions of complaints would fill the memory.
Numbers = Annotated[list[float], Field(fail_fast=True)]
Index = Annotated[int, Field(ge=0, lt=2**31)]


@with_config(STRICT)
class SparseX(TypedDict):
    """A sparse row."""

    indices: Annotated[list[Index], Field(fail_fast=True)]
    values: Numbers


X = Numbers | SparseX
XT = TypeVar("XT", default=X)
"""The form of x that the model's features ask for: X, RecordX where they are named, TextX of texts."""

Y = StrictBool | StrictInt | StrictStr
Strategy = Literal["random", "gradient", "active", "autoactive"]


@with_config(STRICT)
class LabelledExample(TypedDict, Generic[XT]):
    """One example to learn; without x it is that of the pool or of the pending prediction with this id."""

    x: NotRequired[XT]
    y: Y
    id: NotRequired[str | None]
    lease: NotRequired[str | None]


@with_config(STRICT)
class UnlabelledExample(TypedDict, Generic[XT]):
    """One example to predict."""

    x: XT
    id: NotRequired[str | None]


@with_config(STRICT)
class LearnBody(TypedDict, Generic[XT]):
    """Several examples under `examples`, or the parts of one."""

    examples: NotRequired[Annotated[list[LabelledExample[XT]], Field(fail_fast=True)]]
    x: NotRequired[XT]
    y: NotRequired[Y]
    id: NotRequired[str | None]
    lease: NotRequired[str | None]


@with_config(STRICT)
class PredictBody(TypedDict, Generic[XT]):
    """Several examples under `examples`, or the parts of one."""

    examples: NotRequired[Annotated[list[UnlabelledExample[XT]], Field(fail_fast=True)]]
    x: NotRequired[XT]
    id: NotRequired[str | None]
    explain: NotRequired[Annotated[int, Field(ge=0)] | None]
    probabilities: NotRequired[bool | None]


class Details(NamedTuple):
    """What each result is to say besides. explain: so many support vectors; probabilities: those of all classes."""

    explain: int = 0
    probabilities: bool = False


@with_config(STRICT)
class CandidateExample(TypedDict, Generic[XT]):
    """One example for the pool; y: its label, if it is known, for the strategy gradient alone.

    show: what a person is shown in the place of x.
    """

    id: str
    x: XT
    y: NotRequired[Y | None]
    show: NotRequired[Any]


@with_config(STRICT)
class PoolBody(TypedDict, Generic[XT]):
    """Candidates for the pool."""

    examples: Annotated[list[CandidateExample[XT]], Field(fail_fast=True)]


@with_config(STRICT)
class RankedExample(TypedDict, Generic[XT]):
    """One example to rank; y: its label, if it is known, for the strategy gradient alone."""

    x: XT
    id: NotRequired[str | None]
    y: NotRequired[Y | None]


@with_config(STRICT)
class RankBody(TypedDict, Generic[XT]):
    """Examples to rank, and how many of them are wanted (null: all)."""

    examples: Annotated[list[RankedExample[XT]], Field(fail_fast=True)]
    n: NotRequired[Annotated[int, Field(gt=0)] | None]
    strategy: NotRequired[Strategy]


_BY_FORM: dict[Form, Any] = {"rows": X, "named": RecordX, "text": TextX}


def _by_form(body: Any) -> dict[Form, TypeAdapter[Any]]:
    return {form: TypeAdapter(body[x]) for form, x in _BY_FORM.items()}


_LEARN, _PREDICT, _POOL, _RANK = map(_by_form, (LearnBody, PredictBody, PoolBody, RankBody))
_X: dict[Form, TypeAdapter[Any]] = {
    form: TypeAdapter(x, config=ConfigDict(strict=True) if form == "rows" else None) for form, x in _BY_FORM.items()
}


Raw = bytes | bytearray
"""A body as it came; a long one may be a bytearray."""
Body = Raw | dict[str, Any]
"""A body as it came, or what it says: of a frame the parts besides op and ref."""


def parse_learn(body: Body, examples_max: int, *, form: Form = "rows") -> list[LabelledExample]:
    """The labelled examples of a body; form: of x. Invalid says which one is wrong and why."""
    parsed = _parsed(_LEARN[form], body)
    if "examples" not in parsed and "y" in parsed and "x" not in parsed and parsed.get("id") is None:
        raise Invalid("send either examples, or one example with x and y; x is missing")
    return _examples(parsed, ("y",), examples_max)


def parse_predict(body: Body, examples_max: int, *, form: Form = "rows") -> tuple[list[UnlabelledExample], Details]:
    """The examples of a body and what is to be said of each besides; form: of x."""
    parsed = _parsed(_PREDICT[form], body)
    details = Details(parsed.pop("explain", None) or 0, bool(parsed.pop("probabilities", None)))
    return _examples(parsed, ("x",), examples_max), details


def parse_pool(body: Body, examples_max: int, *, form: Form = "rows") -> list[CandidateExample]:
    """The candidates of a body."""
    return _examples(_parsed(_POOL[form], body), ("x",), examples_max)


def parse_rank(body: Body, examples_max: int, *, form: Form = "rows") -> RankBody:
    """The examples to rank of a body."""
    parsed: RankBody = _parsed(_RANK[form], body)
    _examples({"examples": parsed["examples"]}, ("x",), examples_max)
    return parsed


def parse_x(text: str, *, form: Form = "rows") -> Any:
    """One x as JSON, for a query string."""
    try:
        return _X[form].validate_json(text)
    except ValidationError as error:
        raise Invalid(f"x: {_example_problem(error, _X[form])}") from None


def validated(adapter: TypeAdapter[Any], body: Body) -> Any:
    """What a body says. ValidationError."""
    return adapter.validate_python(body) if isinstance(body, dict) else adapter.validate_json(body)


def _parsed(adapter: TypeAdapter[Any], body: Body) -> Any:
    try:
        return validated(adapter, body)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = problem["loc"]
        details = {"index": place[1]} if len(place) > 1 and place[0] == "examples" else {}
        raise Invalid(_example_problem(error, adapter), **details) from None


def _examples(parsed: Any, parts: tuple[str, ...], examples_max: int) -> list[Any]:
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


def _example_problem(error: ValidationError, adapter: TypeAdapter[Any]) -> str:
    # x and y may be of several forms: pydantic reports each; the one that got furthest is what was meant.
    problems = error.errors(include_url=False)
    problem = max(problems, key=lambda p: (len(p["loc"]), p["type"] == UNKNOWN))
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
    return sentence_of(problem, loc, adapter)


def check_ids(ids: Sequence[str | None]) -> None:
    """Refuse ids that are empty, too long, or hold control characters."""
    if ids.count(None) == len(ids):
        return
    for index, given in enumerate(ids):
        if given is not None and not (0 < len(given) <= limits.ID_CHARS_MAX and given.isprintable()):
            raise Invalid(
                f"examples[{index}].id: an id has 1 to {limits.ID_CHARS_MAX} printable characters, got {given[:80]!r}",
                index=index,
            )


def check_show(show: Any, index: int) -> None:
    """Refuse what is too much to be shown with a candidate, or no JSON. Invalid."""
    if _has_more_parts(show, SHOW_BYTES_MAX):
        raise Invalid(f"examples[{index}].show: has at most {SHOW_BYTES_MAX} bytes as JSON, got more", index=index)
    try:
        size = len(show_text(show).encode())
    except (ValueError, RecursionError):
        raise Invalid(f"examples[{index}].show: must be JSON that can be written again", index=index) from None
    if size > SHOW_BYTES_MAX:
        raise Invalid(
            f"examples[{index}].show: has at most {SHOW_BYTES_MAX} bytes as JSON, got {size}; send an address of it",
            index=index,
        )


def _has_more_parts(show: Any, most: int) -> bool:
    """Whether something has more parts and characters than that, each of which takes a byte; found early if so."""
    left, found = [show], 0
    while left and found <= most:
        part = left.pop()
        if isinstance(part, str):
            found += len(part)
        elif isinstance(part, dict | list):
            found += len(part)
            if found <= most:
                left += part if isinstance(part, list) else part.values()
    return found > most


def show_text(show: Any) -> str:
    """What is shown as text: equal where it is the same. ValueError for NaN."""
    return json.dumps(show, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_inputs(xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Inputs:
    """The canonical form of a batch. Invalid says which example is wrong and why; places: where each x stands."""
    features = configuration.features
    if isinstance(features, Features):
        return to_rows(xs, configuration, places)
    if isinstance(features, NamedFeatures):
        for r, x in enumerate(xs):
            check_strings(x, features, places[r] if places else r)
    return Records(tuple(xs))


def check_strings(record: Record, features: NamedFeatures, index: int, what: str = "examples[{}].x") -> None:
    """Refuse a string that is longer than its name may have. Invalid."""
    for name, value in record.items():
        if type(value) is str and len(value) > STRING_CHARS_MAX and features.kinds.get(name) != "text":
            problem = too_long(name, value, STRING_CHARS_MAX)
            raise Invalid(f"{what.format(index)}: {problem.message()}", index=index)


def to_rows(xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Rows:
    """The canonical rows of a batch. Invalid says which example is wrong and why; places: where each x stands."""
    dim = configuration.features.dim
    try:
        if all(isinstance(x, list) and len(x) == dim for x in xs):
            return dense_rows(_matrix(xs, dim), configuration)
        indices: list[Sequence[int]] = []
        values: list[list[float]] = []
        ends = [0]
        for index, x in enumerate(xs):
            if isinstance(x, list):
                if len(x) != dim:
                    raise BadRow(index, f"expected {dim} features, got {len(x)}")  # noqa: TRY301
                indices.append(range(dim))
                values.append(x)
            else:
                if len(x["indices"]) != len(x["values"]):
                    raise BadRow(  # noqa: TRY301
                        index, f"{len(x['indices'])} indices, but {len(x['values'])} values"
                    )
                indices.append(x["indices"])
                values.append(x["values"])
            ends.append(ends[-1] + len(values[-1]))
        features = np.fromiter(chain.from_iterable(indices), np.int64, ends[-1])
        numbers = np.fromiter(chain.from_iterable(values), np.float64, ends[-1])
        return sparse_rows(np.array(ends), features, numbers, configuration)
    except BadRow as error:
        index = places[error.row] if places else error.row
        raise Invalid(f"examples[{index}].x: {error.reason}", index=index) from None


def _matrix(xs: Sequence[Sequence[float]], dim: int) -> np.ndarray[Any, Any]:
    """A batch of lists of dim floats; NumPy takes nearly twice as long for lists."""
    matrix: np.ndarray[Any, Any] = np.empty((len(xs), dim))
    struct.pack_into(f"{matrix.size}d", matrix.data, 0, *chain.from_iterable(xs))
    return matrix


def rows_of(X: np.ndarray[Any, Any], configuration: Configuration, begin: int = 0) -> Rows:
    """The canonical rows of a matrix (m, dim), which stand there. Invalid says which row is wrong and why."""
    try:
        return dense_rows(X, configuration)
    except BadRow as error:
        raise Invalid(f"x[{begin + error.row}]: {error.reason}", index=begin + error.row) from None


def record_of(x: dict[str, Any], index: int, features: NamedFeatures | TextFeatures) -> Record:
    """The canonical form of a record. Invalid says what is wrong with it."""
    try:
        record = text_record(x.get(TEXT)) if isinstance(features, TextFeatures) else canonical(x, TEXT_CHARS_MAX)
    except PydanticCustomError as error:
        raise Invalid(f"x[{index}]: {error.message()}", index=index) from None
    if isinstance(features, NamedFeatures):
        check_strings(record, features, index, "x[{}]")
    return record


def digests(inputs: Inputs, labels: Sequence[Label]) -> list[bytes]:
    """16 bytes for each example that tell its content (x in canonical form, and y) from any other's."""
    return contents_of(x_digests(inputs), labels)
