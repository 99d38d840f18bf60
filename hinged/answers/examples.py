"""Answers about examples: learned, predicted, shown, listed and ranked."""

from typing import Any, Generic, Literal, NotRequired

from typing_extensions import TypedDict

from hinged.answers.models import XT, Label
from hinged.answers.receipts import Receipt


class Votes(TypedDict):
    """The number of annotators who gave a candidate this label."""

    label: Label
    count: int


class LearnedExample(TypedDict):
    """The prediction that was made just before an example was learned."""

    id: str
    prediction: Label | None
    score: float | None
    duplicate: bool
    collected: NotRequired[int]
    needed: NotRequired[int]
    votes: NotRequired[list[Votes]]


class Learned(TypedDict):
    """The answer when all examples are durable and learned. receipts: only with receipts, one for each event that
    contains an example of the request.
    """

    model: str
    position: int
    results: list[LearnedExample]
    receipts: NotRequired[list[Receipt]]


class Wanted(TypedDict):
    """Whether the server asks for the label of a prediction, the probability of this decision, and its reason."""

    wanted: bool
    probability: float
    reason: str | None


class SupportVector(TypedDict):
    """An example that contributes to a score."""

    id: str
    label: Label
    contribution: float


class PredictedExample(TypedDict):
    """A prediction. outside: the names or columns whose values lie outside everything learned. This part is missing if
    no value lies outside.

    intervals: the two ends of the interval of each class's probability; only if the request asks for them. p_values: of
    each class, by full conformal prediction; only if the request asks for them.
    set: the labels that the model's promise allows; only with a promise. lacking: the number of labels that must come
    until everything is promised; only while labels are lacking.
    novelty: the p-value of the claim that x is like the x seen before, null while nothing is compared; only if the
    model's configuration has novelty.
    """

    id: str | None
    prediction: Label | None
    probability: float | None
    probabilities: NotRequired[dict[str, float | None]]
    intervals: NotRequired[dict[str, list[float] | None]]
    p_values: NotRequired[dict[str, float | None]]
    scores: dict[str, float]
    label: Wanted
    support_vectors: NotRequired[list[SupportVector]]
    outside: NotRequired[list[str | int]]
    set: NotRequired[list[Label]]
    lacking: NotRequired[int]
    novelty: NotRequired[float | None]


class Predicted(TypedDict):
    """Predictions, in the order of the examples."""

    model: str
    position: int
    results: list[PredictedExample]


class ExampleDecision(TypedDict):
    """A decision about an example. decision: a class, or "ask"; null if the model has learned nothing and cannot ask.

    probability: of the decided class; null for "ask", and while probabilities are unknown. cost: the expected cost.
    reason: "cost" if the decision has the lowest expected cost, "unknown" if there are no probabilities yet.
    It is "novelty" if x is novel, and "promise" if the set has no label or several. set, lacking, novelty: as in
    PredictedExample.
    question: for "ask", the id of the example in the pool. gain: if the best decision is "ask" or has a capacity, what
    it saves beside the best other decision without a capacity, even if it was not left.
    """

    id: str | None
    decision: Label | None
    probability: float | None
    cost: float | None
    reason: Literal["cost", "unknown", "novelty", "promise", "capacity", "explore"]
    question: NotRequired[str]
    alert: NotRequired[str]
    gain: NotRequired[float]
    probabilities: NotRequired[dict[str, float | None]]
    set: NotRequired[list[Label]]
    lacking: NotRequired[int]
    novelty: NotRequired[float | None]


class ExampleDecisions(TypedDict):
    """Decisions, in the order of the examples."""

    model: str
    position: int
    results: list[ExampleDecision]


class Finished(TypedDict):
    """The result of a finishing step. missing: number of examples of the log that violated when points_max left no room
    for them; 0 if there was room. If it is not 0, the step was over the points alone.
    """

    model: str
    position: int
    support_vectors: int
    points: int
    duality_gap: float | None
    steps: int
    converged: bool
    missing: int


class ShownExample(TypedDict, Generic[XT]):
    """An example. number and label are null before its label. A candidate has `show` if the client sent it.

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
    """An annotator, and the label that the annotator gave."""

    annotator: str
    label: Label


class ListedExample(TypedDict):
    """A learned example. label: the current label. corrected: whether a label was given again since learning, even if
    it was the same label.

    prediction: the prediction from just before learning; null if this prediction is unknown. source and at: null if no
    log contains them. x and weight are present if the request asks for x; x is null if neither the model nor the log
    has it.
    """

    id: str
    number: int
    label: Label
    prediction: Label | None
    source: Literal["streamed", "queried", "random"] | None
    answers: list[AnnotatorsAnswer]
    corrected: bool
    at: str | None
    x: NotRequired[Any]
    weight: NotRequired[float]


class ListedExamples(TypedDict):
    """A page of examples. missing: number of older examples that are in neither the log nor the model. next: cursor of
    the next page, null at the end.
    """

    model: str
    position: int
    missing: int
    examples: list[ListedExample]
    next: str | None


class RankedOne(TypedDict):
    """An example, and its distance from the boundary."""

    id: str | None
    score: float | None


class Ranked(TypedDict):
    """Ranked examples. The examples whose labels are most useful come first."""

    model: str
    position: int
    ranking: list[RankedOne]


class Suspect(TypedDict):
    """An example whose label is probably wrong."""

    id: str
    label: Label
    prediction: Label
    margin: float
    reason: str


class Suspects(TypedDict):
    """Examples whose labels are probably wrong. The most likely errors come first."""

    model: str
    position: int
    suspects: list[Suspect]
