"""Parse and check the examples that clients send. The model's features (features/) determine which x are valid.

Learning, storing and comparing use one canonical form of x, so two spellings of the same point count as the same
content.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired

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

from hinged.operations.base import NO_SEGMENTS
from hinged.service import limits
from hinged.service.data.classes import Label
from hinged.service.data.features.base import Features
from hinged.service.data.features.catalogue import KINDS
from hinged.service.data.features.rows import X_IS, XInRows
from hinged.service.data.inputs import Inputs, contents_of, x_digests
from hinged.service.data.parts import Configuration
from hinged.service.data.problems import MISSING, UNKNOWN, place, sentence_of, shown
from hinged.service.errors import Invalid
from hinged.solvers.core.solver import CLASSES_MAX

SERVER_ID = "@"
"""Prefix of the ids that the server gives. The number of the example follows. These ids are stored in logs."""

STRICT = ConfigDict(extra="forbid", strict=True)

SHOW_BYTES_MAX = 4096  # maximum size of a candidate's `show` as JSON, in bytes

XT = TypeVar("XT", default=XInRows)
"""The type of x that the model's features accept."""

Y = StrictBool | StrictInt | StrictStr
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""An example's own factor of C. The model's solver determines the bounds (ModelLearner.check_weights)."""
ByClass = StrictBool | Annotated[list[StrictStr], Field(max_length=CLASSES_MAX, fail_fast=True)]
"""Whether results list all classes, or the names of some classes."""
Strategy = Literal["random", "gradient", "active", "autoactive"]


@with_config(STRICT)
class LabelledExample(TypedDict, Generic[XT]):
    """An example to learn. If x is missing, it is taken from the pool or the pending prediction with this id."""

    x: NotRequired[XT]
    y: Y
    id: NotRequired[str | None]
    lease: NotRequired[str | None]
    weight: NotRequired[Weight | None]


@with_config(STRICT)
class UnlabelledExample(TypedDict, Generic[XT]):
    """An example to predict."""

    x: XT
    id: NotRequired[str | None]


@with_config(STRICT)
class LearnBody(TypedDict, Generic[XT]):
    """Several examples under `examples`, or the parts of a single example."""

    examples: NotRequired[Annotated[list[LabelledExample[XT]], Field(fail_fast=True)]]
    x: NotRequired[XT]
    y: NotRequired[Y]
    id: NotRequired[str | None]
    lease: NotRequired[str | None]
    weight: NotRequired[Weight | None]


@with_config(STRICT)
class PredictBody(TypedDict, Generic[XT]):
    """Several examples under `examples`, or the parts of a single example."""

    examples: NotRequired[Annotated[list[UnlabelledExample[XT]], Field(fail_fast=True)]]
    x: NotRequired[XT]
    id: NotRequired[str | None]
    explain: NotRequired[Annotated[int, Field(ge=0)] | None]
    probabilities: NotRequired[ByClass | None]
    intervals: NotRequired[ByClass | None]
    conformal: NotRequired[Literal["full"] | None]


@with_config(STRICT)
class DecideBody(TypedDict, Generic[XT]):
    """Several examples under `examples`, or the parts of a single example."""

    examples: NotRequired[Annotated[list[UnlabelledExample[XT]], Field(fail_fast=True)]]
    x: NotRequired[XT]
    id: NotRequired[str | None]
    probabilities: NotRequired[ByClass | None]


Wanted = bool | tuple[str, ...]
"""The names of the classes that are listed, as in `scores`; True for all classes."""


class Details(NamedTuple):
    """Further contents of each result. explain: the number of support vectors. probabilities, intervals: the classes
    whose probabilities, and intervals of probabilities, are listed. conformal: whether p-values are listed.
    """

    explain: int = 0
    probabilities: Wanted = False
    intervals: Wanted = False
    conformal: bool = False

    @property
    def of_the_model(self) -> bool:
        """Return whether the results contain what only the model itself can tell, between two changes."""
        return bool(self.explain or self.intervals or self.conformal)


@with_config(STRICT)
class CandidateExample(TypedDict, Generic[XT]):
    """An example for the pool. y: its label, if known, which only the strategy gradient uses.

    show: what people see instead of x.
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
    """An example to rank. y: its label, if known, which only the strategy gradient uses."""

    x: XT
    id: NotRequired[str | None]
    y: NotRequired[Y | None]


@with_config(STRICT)
class RankBody(TypedDict, Generic[XT]):
    """Examples to rank, and the number of examples to return (null: all)."""

    examples: Annotated[list[RankedExample[XT]], Field(fail_fast=True)]
    n: NotRequired[Annotated[int, Field(gt=0)] | None]
    strategy: NotRequired[Strategy]


def _of_kinds(body: Any) -> dict[type[Features], TypeAdapter[Any]]:
    return {kind: TypeAdapter(body[kind.X]) for kind in KINDS}


_LEARN, _PREDICT, _DECIDE = map(_of_kinds, (LearnBody, PredictBody, DecideBody))
_POOL, _RANK = map(_of_kinds, (PoolBody, RankBody))


Raw = bytes | bytearray
"""A body as received. A long body may be a bytearray."""
Body = Raw | dict[str, Any]
"""A body as received or parsed. A frame is a parsed body: its parts without op and ref."""


def parse_learn(body: Body, examples_max: int, features: Features) -> list[LabelledExample]:
    """Return the labelled examples of a body. features: the features of the model. The error Invalid says which example
    is wrong, and how.
    """
    parsed = _parsed(_LEARN[type(features)], body)
    if "examples" not in parsed and "y" in parsed and "x" not in parsed and parsed.get("id") is None:
        raise Invalid("send either examples, or one example with x and y; x is missing")
    return _examples(parsed, ("y",), examples_max)


def parse_predict(body: Body, examples_max: int, features: Features) -> tuple[list[UnlabelledExample], Details]:
    """Return the examples of a body, and the further contents of each result."""
    return _with_details(_parsed(_PREDICT[type(features)], body), examples_max)


def parse_decide(body: Body, examples_max: int, features: Features) -> tuple[list[UnlabelledExample], Details]:
    """Return the examples of a body to decide, and the further contents of each result."""
    return _with_details(_parsed(_DECIDE[type(features)], body), examples_max)


def _with_details(parsed: dict[str, Any], examples_max: int) -> tuple[list[UnlabelledExample], Details]:
    details = Details(
        parsed.pop("explain", None) or 0,
        _wanted(parsed.pop("probabilities", None)),
        _wanted(parsed.pop("intervals", None)),
        parsed.pop("conformal", None) is not None,
    )
    return _examples(parsed, ("x",), examples_max), details


def _wanted(names: bool | list[str] | None) -> Wanted:
    return tuple(names) if isinstance(names, list) else bool(names)


def parse_pool(body: Body, examples_max: int, features: Features) -> list[CandidateExample]:
    """Return the candidates of a body."""
    return _examples(_parsed(_POOL[type(features)], body), ("x",), examples_max)


def parse_rank(body: Body, examples_max: int, features: Features) -> RankBody:
    """Return a body with examples to rank."""
    parsed: RankBody = _parsed(_RANK[type(features)], body)
    _examples({"examples": parsed["examples"]}, ("x",), examples_max)
    return parsed


def parse_x(text: str, features: Features) -> Any:
    """Return an x from the JSON in a query string."""
    try:
        return features.ONE.validate_json(text)
    except ValidationError as error:
        raise Invalid(f"x: {_example_problem(error, features.ONE)}") from None


def validated(adapter: TypeAdapter[Any], body: Body) -> Any:
    """Return the checked content of a body. Raise ValidationError."""
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
        raise Invalid("send either examples, or the parts of a single example, not both")
    examples = parsed["examples"]
    if not 1 <= len(examples) <= examples_max:
        raise Invalid(f"examples must be 1 to {examples_max}, got {len(examples)}")
    return list(examples)


def _example_problem(error: ValidationError, adapter: TypeAdapter[Any]) -> str:
    # x and y have several forms, and pydantic reports a problem for each form. The deepest problem belongs to the form
    # that the client meant.
    problems = error.errors(include_url=False)
    problem = max(problems, key=lambda p: (len(p["loc"]), p["type"] == UNKNOWN))
    loc = tuple(p for p in problem["loc"] if p not in ("list[float]", "SparseX", "bool", "int", "str"))
    if problem["type"] == "record":
        return f"{place(loc)}: {problem['msg']}".removeprefix(": ")
    if problem["type"] in (UNKNOWN, MISSING):
        return sentence_of(problem, loc, adapter)
    if loc and loc[-1] == "y":
        return f"{place(loc)}: a label must be a string, an integer or a boolean, got {shown(problem['input'])}"
    if loc and loc[-1] == "x":
        return f"{place(loc)}: {X_IS}, got {shown(problem['input'])}"
    return sentence_of(problem, loc, adapter)


def check_ids(ids: Sequence[str | None]) -> None:
    """Refuse ids that are empty, are too long, contain control characters, or that no URL can name."""
    if ids.count(None) == len(ids):
        return
    for index, given in enumerate(ids):
        if given is not None and not (0 < len(given) <= limits.ID_CHARS_MAX and given.isprintable()):
            raise Invalid(
                f"examples[{index}].id: an id has 1 to {limits.ID_CHARS_MAX} printable characters, got {given[:80]!r}",
                index=index,
            )
        if given in NO_SEGMENTS:
            raise Invalid(f"examples[{index}].id: no URL can name the id {given!r}", index=index)


def check_show(show: Any, index: int) -> None:
    """Raise Invalid for a `show` that is too long or not JSON."""
    if _has_more_parts(show, SHOW_BYTES_MAX):
        raise Invalid(
            f"examples[{index}].show: must have at most {SHOW_BYTES_MAX} bytes as JSON, got more", index=index
        )
    try:
        size = len(show_text(show).encode())
    except (ValueError, RecursionError):
        raise Invalid(
            f"examples[{index}].show: must be JSON without NaN, infinity or lone surrogates", index=index
        ) from None
    if size > SHOW_BYTES_MAX:
        raise Invalid(
            f"examples[{index}].show: must have at most {SHOW_BYTES_MAX} bytes as JSON, got {size}; send a URL",
            index=index,
        )


def _has_more_parts(show: Any, most: int) -> bool:
    """Return whether a value has more than `most` parts and characters. Each part or character takes at least one byte.
    The count stops at `most`.
    """
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
    """Return a `show` as text. Equal values have equal texts. Raise ValueError for NaN."""
    return json.dumps(show, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_inputs(xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Inputs:
    """Return the canonical form of a batch. The error Invalid says which example is wrong, and how. places: the index
    of each x.
    """
    return configuration.features.inputs(xs, configuration, places)


def digests(inputs: Inputs, labels: Sequence[Label]) -> list[bytes]:
    """Return 16 bytes for each example, which identify its content: x in canonical form, and y."""
    return contents_of(x_digests(inputs), labels)
