"""Answers about labels: the pool, its questions, and the answers of annotators."""

from typing import Any, Generic, Literal, NotRequired

from typing_extensions import TypedDict

from hinged.answers.models import XT, Label


class Offered(TypedDict):
    """The numbers of candidates that were added and dropped, and the size of the pool."""

    model: str
    position: int
    added: int
    size: int
    dropped: int


class Query(TypedDict, Generic[XT]):
    """A question about the label of an example. show: what the client sent for people to see instead of x. disputed:
    other annotators have given different labels.
    """

    id: str
    x: XT
    show: NotRequired[Any]
    lease: str
    expires_at: str
    score: float | None
    reason: str
    disputed: NotRequired[Literal[True]]


class Queries(TypedDict, Generic[XT]):
    """The questions for an annotator."""

    model: str
    position: int
    queries: list[Query[XT]]


class Next(TypedDict):
    """A candidate that the server would ask about next."""

    id: str
    score: float | None
    reason: str


class Peeked(TypedDict):
    """The candidates that the server would ask about next, and the leases."""

    model: str
    position: int
    next: list[Next]
    leased: list[dict[str, Any]]
    pool: dict[str, Any]


class GivenAnswer(TypedDict):
    """An annotator's answer. prediction: the model's prediction before this answer. learned: whether the candidate has
    all its labels.
    """

    id: str
    annotator: str
    label: Label
    prediction: Label | None
    learned: bool
    at: str


class Annotator(TypedDict):
    """The figures of an annotator.

    predicted: number of answers to candidates for which the model had a prediction; as_predicted: number of these
    answers that agree with the prediction.
    compared: number of candidates that other annotators labelled as well; agreed: number of these candidates that were
    learned with this annotator's label.
    shared: number of stored answers to candidates that other annotators labelled as well. kappa: how far these answers
    agree with the current labels. reliability: the estimated share of these answers that are right.
    """

    labelled: int
    skipped: int
    changed: int
    predicted: int
    as_predicted: int
    compared: int
    agreed: int
    shared: int
    kappa: float | None
    reliability: float | None


class Agreement(TypedDict):
    """Two annotators, the number of examples that both labelled, and the number of these examples with equal labels."""

    annotators: list[str]
    examples: int
    same: int
    kappa: float | None


class Answers(TypedDict):
    """The newest answers, and the figures of every annotator."""

    model: str
    position: int
    answers: list[GivenAnswer]
    annotators: dict[str, Annotator]
    agreement: list[Agreement]
    answered: int
    disagreement: float | None


class PredictedCandidate(TypedDict):
    """The model's prediction for a candidate, and the candidate's distance from the boundary. show: what the client
    sent for people to see.
    """

    id: str
    prediction: Label | None
    score: float | None
    show: NotRequired[Any]


class Candidates(TypedDict):
    """Candidates in the pool. size: the total number of candidates."""

    model: str
    position: int
    size: int
    candidates: list[PredictedCandidate]


class Renewed(TypedDict):
    """A lease that now lasts until `expires_at`."""

    model: str
    position: int
    id: str
    lease: str
    expires_at: str


class Released(TypedDict):
    """A released lease. The server may ask about the candidate again."""

    model: str
    position: int
    id: str
    released: Literal[True]


class Skipped(TypedDict):
    """A skipped candidate. With `me`, the server does not ask this annotator about it again. With `all`, the server
    asks no annotator about it.
    """

    model: str
    position: int
    id: str
    skipped: Literal["me", "all"]


class ReconciledCounts(TypedDict):
    """The number of annotations for each outcome. refused: the model cannot learn the annotation; the log says why."""

    learned: int
    known: int
    corrected: int
    forgotten: int
    ignored: int
    refused: int


class Reconciled(TypedDict):
    """The model now agrees with the annotations of a project."""

    model: str
    project: int
    outcomes: ReconciledCounts
