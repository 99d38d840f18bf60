"""Answers about examples: learned, predicted, shown, listed and ranked."""

from typing import Any, Generic, Literal, NotRequired

from typing_extensions import TypedDict

from hinged.answers.models import XT, Label


class Votes(TypedDict):
    """How many labelled a candidate so."""

    label: Label
    count: int


class LearnedExample(TypedDict):
    """The prediction from right before an example was learned."""

    id: str
    prediction: Label | None
    score: float | None
    duplicate: bool
    collected: NotRequired[int]
    needed: NotRequired[int]
    votes: NotRequired[list[Votes]]


class Learned(TypedDict):
    """All examples are durable and learned."""

    model: str
    position: int
    results: list[LearnedExample]


class Wanted(TypedDict):
    """Whether a label is wanted, with which probability that came about, and why."""

    wanted: bool
    probability: float
    reason: str | None


class SupportVector(TypedDict):
    """An example that carries a score."""

    id: str
    label: Label
    contribution: float


class PredictedExample(TypedDict):
    """A prediction. outside: names or columns whose values lie outside of what was learned, where any do."""

    id: str | None
    prediction: Label | None
    probability: float | None
    probabilities: NotRequired[dict[str, float | None]]
    scores: dict[str, float]
    label: Wanted
    support_vectors: NotRequired[list[SupportVector]]
    outside: NotRequired[list[str | int]]


class Predicted(TypedDict):
    """Predictions in the order of the examples."""

    model: str
    position: int
    results: list[PredictedExample]


class Finished(TypedDict):
    """What the finishing step came to."""

    model: str
    position: int
    support_vectors: int
    points: int
    duality_gap: float | None
    steps: int
    converged: bool


class ShownExample(TypedDict, Generic[XT]):
    """An example. number and label: null for a candidate, which has `show` where that came with it.

    x: null where neither model nor log have it.
    """

    model: str
    position: int
    id: str
    number: int | None
    label: Label | None
    x: XT | None
    show: NotRequired[Any]


class AnnotatorsAnswer(TypedDict):
    """Who gave which label."""

    annotator: str
    label: Label


class ListedExample(TypedDict):
    """A learned example. label: as it stands now; corrected: whether it was given again since, perhaps another.

    prediction: from right before, null also where it is known no more; source and at: null where no log tells them.
    """

    id: str
    number: int
    label: Label
    prediction: Label | None
    source: Literal["streamed", "queried", "random"] | None
    answers: list[AnnotatorsAnswer]
    corrected: bool
    at: str | None


class ListedExamples(TypedDict):
    """A page. missing: examples before all of which nothing is known any more; next: cursor, null at the end."""

    model: str
    position: int
    missing: int
    examples: list[ListedExample]
    next: str | None


class RankedOne(TypedDict):
    """An example and its distance from the boundary."""

    id: str | None
    score: float | None


class Ranked(TypedDict):
    """Examples, the most wanted first."""

    model: str
    position: int
    ranking: list[RankedOne]


class Suspect(TypedDict):
    """An example whose label looks wrong."""

    id: str
    label: Label
    prediction: Label
    margin: float
    reason: str


class Suspects(TypedDict):
    """The likeliest errors first."""

    model: str
    position: int
    suspects: list[Suspect]
