"""What the methods of the clients return: the answers of the server's routes as types, for type checkers and editors.

They hold what the server's OpenAPI document says; a test compares the two. A part that is NotRequired is not in every
answer; docs/http.md says where each is.
"""

from typing import Any, Literal, NotRequired, TypedDict

Label = str | int | bool


# -- the server -------------------------------------------------------------------------------------------------------


class KeyShown(TypedDict):
    """A key, without its text."""

    name: str
    role: Literal["reader", "annotator", "writer", "admin"]
    models: list[str]


class Ticket(TypedDict):
    """What opens one stream."""

    ticket: str
    expires_at: str


# -- models -----------------------------------------------------------------------------------------------------------


class Created(TypedDict):
    """The model with every default filled in."""

    model: str
    configuration: dict[str, Any]


class Summary(TypedDict):
    """A model in short; one that is being loaded has nothing else, one that has stopped an error."""

    model: str
    state: Literal["loading", "serving", "stopped"]
    configuration: NotRequired[dict[str, Any]]
    position: NotRequired[int]
    examples: NotRequired[int]
    classes: NotRequired[list[Label]]
    error: NotRequired[str]


class PassedOver(TypedDict):
    """An event that could not be applied and was set aside."""

    position: int
    kind: str


class RunningJob(TypedDict):
    """A change that is under way. progress: from 0 to 1."""

    job: str
    kind: Literal["forget", "correct", "configure", "shadow"]
    state: Literal["running"]
    progress: float
    certificate: None


class RacingArm(TypedDict):
    """A machine of a race. accuracy: fading, of its answers before each label was known; null before the first."""

    C: float
    gamma: float | None
    half_life: int | None
    accuracy: float | None
    points: int
    leads: bool


class Described(TypedDict):
    """A model in figures."""

    model: str
    state: Literal["serving", "stopped"]
    configuration: dict[str, Any]
    position: int
    examples: int
    classes: list[Label]
    support_vectors: int
    points: int
    duality_gap: float | None
    certificate: dict[str, Any]
    metrics: dict[str, Any]
    pool: dict[str, Any]
    pending: int
    memory_bytes: int
    features: NotRequired[dict[str, Any]]
    discards: NotRequired[dict[str, Any]]
    arms: NotRequired[list[RacingArm]]
    set_aside: NotRequired[list[PassedOver]]
    jobs: list[RunningJob]
    error: NotRequired[str]


class Glance(TypedDict):
    """A model in an overview; one that is not loaded has its state alone."""

    model: str
    state: Literal["compiling", "loading", "serving", "stopped"]
    error: NotRequired[str]
    position: NotRequired[int]
    examples: NotRequired[int]
    classes: NotRequired[list[Label]]
    solver: NotRequired[str]
    accuracy: NotRequired[float | None]
    curve: NotRequired[list[float | None]]
    points: NotRequired[int]
    drifts: NotRequired[int]
    drifted: NotRequired[bool]
    queue: NotRequired[int]
    pool: NotRequired[int]
    jobs: NotRequired[int]


class Overview(TypedDict):
    """All models that the key covers."""

    models: list[Glance]


class Curve(TypedDict):
    """Figures by position, as columns of one length; null where there is none."""

    position: list[int]
    examples: list[int]
    at_ms: list[int]
    accuracy: list[float | None]
    fading: list[float | None]
    streamed: list[float | None]
    queried: list[float | None]
    random: list[float | None]
    log_loss: list[float | None]
    support_vectors: list[float | None]
    points: list[float | None]
    gap: list[float | None]


class Mark(TypedDict):
    """Something that happened."""

    kind: Literal["drift", "finished", "swapped", "promoted", "reconfigured", "rolled_back", "set_aside"]
    position: int
    examples: int
    at_ms: int


class History(TypedDict):
    """The learning curves of a model and its challengers. stride: examples between two points."""

    model: str
    position: int
    points_max: int
    stride: int
    curve: Curve
    shadows: dict[str, Curve]
    marks: list[Mark]
    snapshots: list[int]


class Deleted(TypedDict):
    """The model is gone."""

    model: str
    deleted: Literal[True]


# -- examples ---------------------------------------------------------------------------------------------------------


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
    """A prediction."""

    id: str | None
    prediction: Label | None
    probability: float | None
    probabilities: NotRequired[dict[str, float | None]]
    scores: dict[str, float]
    label: Wanted
    support_vectors: NotRequired[list[SupportVector]]


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


# -- labels -----------------------------------------------------------------------------------------------------------


class Offered(TypedDict):
    """What became of the candidates."""

    model: str
    position: int
    added: int
    size: int
    dropped: int


class Query(TypedDict):
    """A question: which label has this example. show: what came with it, to be shown in the place of x."""

    id: str
    x: Any
    show: NotRequired[Any]
    lease: str
    expires_at: str
    score: float | None
    reason: str


class Queries(TypedDict):
    """The questions of an annotator."""

    model: str
    position: int
    queries: list[Query]


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


class ShownExample(TypedDict):
    """An example. number and label: null for a candidate, which has `show` where that came with it.

    x: null where neither model nor log have it.
    """

    model: str
    position: int
    id: str
    number: int | None
    label: Label | None
    x: Any
    show: NotRequired[Any]


class AnnotatorsAnswer(TypedDict):
    """Who gave which label."""

    annotator: str
    label: Label


class ListedExample(TypedDict):
    """A learned example. label: as it stands now; corrected: whether it was given again since, perhaps another.

    prediction: from right before, None also where it is known no more; source and at: None where no log tells them.
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
    """A page. missing: examples before all of which nothing is known any more; next: cursor, None at the end."""

    model: str
    position: int
    missing: int
    examples: list[ListedExample]
    next: str | None


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
    """The candidate may be asked again. Where a second try found the lease gone, `released` is all that is known."""

    model: NotRequired[str]
    position: NotRequired[int]
    id: NotRequired[str]
    released: Literal[True]


class Skipped(TypedDict):
    """Its annotator, or nobody, is asked again. Where a second try found the lease gone, `skipped` is all there is."""

    model: NotRequired[str]
    position: NotRequired[int]
    id: NotRequired[str]
    skipped: Literal["me", "all"]


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


# -- snapshots --------------------------------------------------------------------------------------------------------


class KeptSnapshot(TypedDict):
    """A snapshot is durable, of the state at this position."""

    model: str
    position: int


class Imported(TypedDict):
    """The model that a file made."""

    model: str
    configuration: dict[str, Any]
    position: int
    examples: int
    classes: list[Label]


class RolledBack(TypedDict):
    """The state is again what it was."""

    model: str
    position: int
    rolled_back_to: int
    examples: int


class SetAside(TypedDict):
    """An event is passed over; `error` says why the model stands again, if it does."""

    model: str
    position: int
    set_aside: PassedOver
    error: str | None


# -- changes ----------------------------------------------------------------------------------------------------------


class Changed(TypedDict):
    """A change that was made (certificate), or that a job makes."""

    model: str
    position: int
    certificate: NotRequired[dict[str, Any]]
    unwritten: NotRequired[list[str]]
    job: NotRequired[str]


class JobState(TypedDict):
    """What became of a job. progress: from 0 to 1. unwritten: what the store could not write anew."""

    job: str
    model: str
    kind: Literal["forget", "correct", "configure", "shadow"]
    state: Literal["running", "done", "failed"]
    progress: float
    certificate: dict[str, Any] | None
    unwritten: NotRequired[list[str]]
    error: NotRequired[str]


class Certified(TypedDict):
    """How good the solution is."""

    model: str
    position: int
    certificate: dict[str, Any]


class LeftOut(TypedDict):
    """The leave-one-out error."""

    model: str
    position: int
    examples: int
    errors: int
    error: float | None


class Challengers(TypedDict):
    """The model and its challengers, each with its figures."""

    model: str
    position: int
    champion: dict[str, Any]
    shadows: dict[str, dict[str, Any]]


class Retired(TypedDict):
    """The challenger is gone. Where a second try found it gone already, model and position are not told."""

    model: NotRequired[str]
    position: NotRequired[int]
    shadow: str
    deleted: Literal[True]
