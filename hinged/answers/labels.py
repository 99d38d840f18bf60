"""Answers about labels: the pool, its questions, and who answered them."""

from typing import Any, Generic, Literal, NotRequired

from typing_extensions import TypedDict

from hinged.answers.models import XT, Label


class Offered(TypedDict):
    """What became of the candidates."""

    model: str
    position: int
    added: int
    size: int
    dropped: int


class Query(TypedDict, Generic[XT]):
    """A question: which label has this example. show: what came with it, to be shown in the place of x."""

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
    """What would be asked."""

    id: str
    score: float | None
    reason: str


class Peeked(TypedDict):
    """What would be asked next, and what is leased."""

    model: str
    position: int
    next: list[Next]
    leased: list[dict[str, Any]]
    pool: dict[str, Any]


class GivenAnswer(TypedDict):
    """An answer. prediction: what the model had said; learned: whether the candidate has all its labels."""

    id: str
    annotator: str
    label: Label
    prediction: Label | None
    learned: bool
    at: str


class Annotator(TypedDict):
    """An annotator in numbers.

    predicted: answers of which the model had said something before; as_predicted: those that were the same. compared:
    candidates that others labelled as well; agreed: those learned with this annotator's label. shared: of the answers
    that are kept, those to what others labelled as well; kappa: how far they agree with the labels that stand.
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
    """Two annotators who labelled the same examples, and how many of them the same."""

    annotators: list[str]
    examples: int
    same: int
    kappa: float | None


class Answers(TypedDict):
    """The newest answers, and what everybody's have come to."""

    model: str
    position: int
    answers: list[GivenAnswer]
    annotators: dict[str, Annotator]
    agreement: list[Agreement]
    answered: int
    disagreement: float | None


class PredictedCandidate(TypedDict):
    """What the model says of a candidate, and how far that is from the boundary. show: what came with it."""

    id: str
    prediction: Label | None
    score: float | None
    show: NotRequired[Any]


class Candidates(TypedDict):
    """The pool. size: of all of it."""

    model: str
    position: int
    size: int
    candidates: list[PredictedCandidate]


class Renewed(TypedDict):
    """The lease lasts until then."""

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
    """Its annotator, or nobody, is asked again."""

    model: str
    position: int
    id: str
    skipped: Literal["me", "all"]


class ReconciledCounts(TypedDict):
    """What became of how many annotations. refused: the model cannot take them; the log says why."""

    learned: int
    known: int
    corrected: int
    forgotten: int
    ignored: int
    refused: int


class Reconciled(TypedDict):
    """A model that is level with the annotations of a project."""

    model: str
    project: int
    outcomes: ReconciledCounts
