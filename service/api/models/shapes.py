"""What the routes of models take and answer."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape
from hinged.service.data.classes import Label
from hinged.service.data.configuration import CONFIGURATIONS

CONFIGURATION = {
    "solver": "lasvm",
    "kernel": {"type": "rbf", "gamma": 2.0},
    "features": {"type": "dense", "dim": 2},
    "C": 10.0,
}


class Created(TypedDict):
    """The model with every default filled in; it serves, but where its solver is to be compiled first."""

    model: str
    configuration: dict[str, Any]
    state: NotRequired[Literal["compiling"]]


class Summary(TypedDict):
    """A model in short; one that is being loaded, or compiled for, has nothing else, one that has stopped an error."""

    model: str
    state: Literal["compiling", "loading", "serving", "stopped"]
    configuration: NotRequired[dict[str, Any]]
    position: NotRequired[int]
    examples: NotRequired[int]
    classes: NotRequired[list[Label]]
    error: NotRequired[str]


class Models(TypedDict):
    """All models that the key covers."""

    models: list[Summary]


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
    """A machine of a race. solver: the name under which it is one alone. accuracy: fading, of its answers before each
    label was known; null before the first.
    """

    solver: str
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


MODEL = Shape(CONFIGURATIONS, CONFIGURATION)
CREATED = Shape(Created, {"model": "weather", "configuration": CONFIGURATION})
MODELS = Shape(
    Models,
    {
        "models": [
            {
                "model": "weather",
                "state": "serving",
                "configuration": CONFIGURATION,
                "position": 5,
                "examples": 3,
                "classes": ["sun", "rain"],
            }
        ]
    },
)
DESCRIBED = Shape(
    Described,
    {
        "model": "weather",
        "state": "serving",
        "configuration": CONFIGURATION,
        "position": 5,
        "examples": 3,
        "classes": ["sun", "rain"],
        "support_vectors": 3,
        "points": 3,
        "duality_gap": 0.0,
        "certificate": {},
        "metrics": {},
        "pool": {},
        "pending": 0,
        "memory_bytes": 4096,
        "jobs": [],
    },
)
OVERVIEW = Shape(
    Overview,
    {
        "models": [
            {
                "model": "weather",
                "state": "serving",
                "position": 5,
                "examples": 3,
                "classes": ["sun", "rain"],
                "solver": "lasvm",
                "accuracy": 0.5,
                "curve": [None, 0.5],
                "points": 3,
                "drifts": 0,
                "drifted": False,
                "queue": 0,
                "pool": 0,
                "jobs": 0,
            }
        ]
    },
)
HISTORY = Shape(
    History,
    {
        "model": "weather",
        "position": 5,
        "points_max": 512,
        "stride": 1,
        "curve": {
            "position": [5],
            "examples": [3],
            "at_ms": [1777636800000],
            "accuracy": [0.5],
            "fading": [0.5],
            "streamed": [0.5],
            "queried": [None],
            "random": [None],
            "log_loss": [0.7],
            "support_vectors": [3.0],
            "points": [3.0],
            "gap": [0.01],
        },
        "shadows": {},
        "marks": [{"kind": "finished", "position": 4, "examples": 2, "at_ms": 1777636800000}],
        "snapshots": [4],
    },
)
DELETED = Shape(Deleted, {"model": "weather", "deleted": True})
