"""Answers about labels: the pool, its questions, and the annotators' answers."""

from typing import Any, Generic, Literal, NotRequired

from typing_extensions import TypedDict

from hinged.answers.models import XT, Label


class Offered(TypedDict):
    """The number of candidates that were added and dropped, and the pool's size."""

    model: str
    position: int
    added: int
    size: int
    dropped: int


class Query(TypedDict, Generic[XT]):
    """A question: which label has this example? show: what the client sent to be shown instead of x."""

    id: str
    x: XT
    show: NotRequired[Any]
    lease: str
    expires_at: str
    score: float | None
    reason: str


class Queries(TypedDict, Generic[XT]):
    """The questions of an annotator."""

    model: str
    position: int
    queries: list[Query[XT]]


class Next(TypedDict):
    """A candidate that would be asked next."""

    id: str
    score: float | None
    reason: str


class Peeked(TypedDict):
    """The candidates that would be asked next, and the leases."""

    model: str
    position: int
    next: list[Next]
    leased: list[dict[str, Any]]
    pool: dict[str, Any]


class GivenAnswer(TypedDict):
    """An answer. prediction: what the model had predicted; learned: whether the candidate has all its labels."""

    id: str
    annotator: str
    label: Label
    prediction: Label | None
    learned: bool
    at: str


class Annotator(TypedDict):
    """Figures of an annotator.

    predicted: answers to candidates that the model had predicted before; as_predicted: those with the predicted label.
    compared: candidates that other annotators labelled as well; agreed: those learned with this annotator's label.
    shared: kept answers to candidates that other annotators labelled as well; kappa: how far they agree with the
    current labels.
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


class Agreement(TypedDict):
    """Two annotators who labelled the same examples, and for how many of them both gave the same label."""

    annotators: list[str]
    examples: int
    same: int
    kappa: float | None


class Answers(TypedDict):
    """The newest answers, and every annotator's figures."""

    model: str
    position: int
    answers: list[GivenAnswer]
    annotators: dict[str, Annotator]
    agreement: list[Agreement]
    answered: int
    disagreement: float | None


class PredictedCandidate(TypedDict):
    """The model's prediction for a candidate, and its distance from the boundary. show: what the client sent for
    people.
    """

    id: str
    prediction: Label | None
    score: float | None
    show: NotRequired[Any]


class Candidates(TypedDict):
    """The pool. size: all candidates in it."""

    model: str
    position: int
    size: int
    candidates: list[PredictedCandidate]


class Renewed(TypedDict):
    """The lease lasts until `expires_at`."""

    model: str
    position: int
    id: str
    lease: str
    expires_at: str


class Released(TypedDict):
    """The candidate may be asked again."""

    model: str
    position: int
    id: str
    released: Literal[True]


class Skipped(TypedDict):
    """This annotator (me), or every annotator (all), is not asked for the candidate again."""

    model: str
    position: int
    id: str
    skipped: Literal["me", "all"]


class ReconciledCounts(TypedDict):
    """Number of annotations by what became of each. refused: the model cannot take it; the log says why."""

    learned: int
    known: int
    corrected: int
    forgotten: int
    ignored: int
    refused: int


class Reconciled(TypedDict):
    """The model is level with the annotations of a project."""

    model: str
    project: int
    outcomes: ReconciledCounts
