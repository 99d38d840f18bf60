"""Answers about models: their configurations, their figures and their history."""

from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict, TypeVar

Label: TypeAlias = str | int | bool
JobKind = Literal["forget", "correct", "configure", "shadow"]
MarkKind = Literal[
    "drift", "alarm", "input_alarm", "finished", "swapped", "promoted", "reconfigured", "rolled_back", "set_aside"
]
XT = TypeVar("XT", default=Any)
"""The form of an x. The server's OpenAPI document describes the possible parts."""


class Created(TypedDict):
    """The model, which may have existed before. The model is ready, unless its solver has to be compiled first, or it
    has no features: then it waits for its first examples.
    """

    model: str
    configuration: dict[str, Any]
    state: NotRequired[Literal["compiling", "waiting"]]


class Summary(TypedDict):
    """A short description of a model. A model that is loading or compiling has no figures. A stopped model has an
    error.
    """

    model: str
    state: Literal["compiling", "loading", "serving", "stopped", "waiting"]
    configuration: NotRequired[dict[str, Any]]
    position: NotRequired[int]
    examples: NotRequired[int]
    classes: NotRequired[list[Label]]
    error: NotRequired[str]


class Models(TypedDict):
    """All models that the key may use."""

    models: list[Summary]


class PassedOver(TypedDict):
    """An event that the model could not apply and that was set aside."""

    position: int
    kind: str


class RunningJob(TypedDict):
    """A change that is being made. progress: from 0 to 1."""

    job: str
    kind: JobKind
    state: Literal["running"]
    progress: float
    certificate: None


class RacingArm(TypedDict):
    """A machine of a race. solver, kernel: the names of the same machine outside a race. accuracy: the fading mean
    accuracy of its predictions, each made before its label was known and counted by the model's goal. The accuracy is
    null before the first prediction. counts: what this accuracy counts, in words. share: how much the machine counts in
    an answer; all shares are 1 together.
    """

    solver: str
    kernel: str
    C: float
    gamma: float | None
    half_life: int | None
    accuracy: float | None
    counts: str
    points: int
    leads: bool
    share: float


class CapacityUsed(TypedDict):
    """How often a decision with a capacity was taken in the present period, and how often it was refused. until: the
    end of the period.
    """

    most: int
    taken: int
    refused: int
    until: str


class Described(TypedDict):
    """The description and figures of a model."""

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
    capacity: NotRequired[dict[str, CapacityUsed]]
    alerts: NotRequired[dict[str, int]]
    novelty: NotRequired[dict[str, Any]]
    pending: int
    memory_bytes: int
    features: NotRequired[dict[str, Any]]
    discards: NotRequired[dict[str, Any]]
    arms: NotRequired[list[RacingArm]]
    set_aside: NotRequired[list[PassedOver]]
    jobs: list[RunningJob]
    error: NotRequired[str]


class FrequentValue(TypedDict):
    """A string or boolean of a name, and its share among the points."""

    value: str | bool
    share: float


class ColumnFigures(TypedDict):
    """The columns that the server made of a name of x. Dense features have numbers as names.

    kinds: `number`, `category`, `time`, `text`, or `identifier` for a name without columns. values: the number of
    strings and booleans with a column. usual: the numbers one deviation below and above the mean. missing: the share of
    points without a value of the name. effect: the share of points whose predicted class changes if their x lacks the
    name. Both are null if unknown.
    """

    name: str
    kinds: list[str]
    values: int
    frequent: list[FrequentValue]
    usual: tuple[float, float] | None
    missing: float | None
    effect: float | None


class Columns(TypedDict):
    """The columns that the server made of the names of x."""

    model: str
    position: int
    columns: list[ColumnFigures]


class Rule(TypedDict):
    """The effect of a rule: shares of all examples, and the mean cost of an example by the present costs."""

    right: float
    false: float
    missed: float
    asked: float
    cost: float


class ThresholdCurve(TypedDict):
    """The effect of each threshold, as columns of equal length; see Rule. missed_cost: the cost of a missed
    example of the class that makes the threshold the best one. precision, recall and f_beta: without asking; null if
    unknown.
    """

    threshold: list[float]
    missed_cost: list[float]
    right: list[float]
    false: list[float]
    missed: list[float]
    asked: list[float]
    cost: list[float]
    precision: list[float | None]
    recall: list[float | None]
    f_beta: list[float | None]


Thresholds = TypedDict(
    "Thresholds",
    {
        "model": str,
        "position": int,
        "class": str,
        "other": str,
        "examples": float,
        "costs": dict[Literal["missed", "false", "ask"], float | None],
        "threshold": float | None,
        "rules": dict[Literal["present", "never", "always", "ask"], Rule],
        "curve": ThresholdCurve | None,
    },
)
"""Thresholds on the probability of `class`, one of two classes. threshold: what the present costs amount to."""


class Glance(TypedDict):
    """A model in an overview. If the model is not loaded, only its state is given."""

    model: str
    state: Literal["compiling", "loading", "serving", "stopped", "waiting"]
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
    alarmed: NotRequired[bool]
    input_alarmed: NotRequired[bool]
    queue: NotRequired[int]
    queue_max: NotRequired[int]
    pool: NotRequired[int]
    conflicts: NotRequired[int]
    jobs: NotRequired[int]


class Overview(TypedDict):
    """A few figures of all models that the key may use."""

    models: list[Glance]


class Curve(TypedDict):
    """The figures of a model along its log, as columns of equal length. A missing figure is null."""

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
    goal: list[float | None]


class Mark(TypedDict):
    """A notable event on a learning curve. text: what people read about it. warns: whether it needs their attention."""

    kind: MarkKind
    text: str
    warns: bool
    position: int
    examples: int
    at_ms: int


class AlarmPath(TypedDict):
    """The path of an alarm, as columns: the decimal logarithm of its martingale. examples: for an alarm about inputs,
    numbers of x seen.
    """

    examples: list[int]
    value: list[float]


class History(TypedDict):
    """The learning curves of a model and its challengers. stride: the number of examples between two points. alarm:
    only with an alarm. input_alarm: only with an alarm and novelty.
    """

    model: str
    position: int
    points_max: int
    stride: int
    curve: Curve
    shadows: dict[str, Curve]
    marks: list[Mark]
    alarm: NotRequired[AlarmPath]
    input_alarm: NotRequired[AlarmPath]
    snapshots: list[int]


class Deleted(TypedDict):
    """The model was deleted."""

    model: str
    deleted: Literal[True]
