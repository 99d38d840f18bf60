"""Answers about examples: learned, predicted, shown, listed and ranked."""

from typing import Any, Generic, Literal, NotRequired

from typing_extensions import TypedDict

from hinged.answers.models import XT, Label


class Votes(TypedDict):
    """How many annotators gave a candidate this label."""

    label: Label
    count: int


class LearnedExample(TypedDict):
    """The prediction made right before an example was learned."""

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
    """Whether the server wants the label, the probability of that decision, and the reason."""

    wanted: bool
    probability: float
    reason: str | None


class SupportVector(TypedDict):
    """An example that contributes to a score."""

    id: str
    label: Label
    contribution: float


class PredictedExample(TypedDict):
    """A prediction. outside: names or columns whose values lie outside everything learned; only if there are any."""

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
    """The result of a finishing step."""

    model: str
    position: int
    support_vectors: int
    points: int
    duality_gap: float | None
    steps: int
    converged: bool


class ShownExample(TypedDict, Generic[XT]):
    """An example. number and label: null for a candidate, which has `show` if the client sent it.

    x: null if neither the model nor the log has it.
    """

    model: str
    position: int
    id: str
    number: int | None
    label: Label | None
    x: XT | None
    show: NotRequired[Any]


class AnnotatorsAnswer(TypedDict):
    """An annotator and the label that this annotator gave."""

    annotator: str
    label: Label


class ListedExample(TypedDict):
    """A learned example. label: the current label; corrected: whether the label was given again since, perhaps a
    different one.

    prediction: from right before learning; null also where it is no longer known. source and at: null where no log has
    them.
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
    """A page. missing: number of older examples that neither log nor model has; next: cursor, null at the end."""

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
