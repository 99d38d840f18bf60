"""What the routes take and answer, for the OpenAPI document: types, each with an example that can be sent."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import WithJsonSchema

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape
from hinged.service.data.classes import Label
from hinged.service.data.configuration import CONFIGURATIONS
from hinged.service.data.examples import (
    LearnBody,
    PoolBody,
    PredictBody,
    RankBody,
    X,
)
from hinged.service.data.records import RecordX
from hinged.service.data.tensors import OutputTensor

AnyX = X | RecordX
AT = "2026-05-01T12:00:00.000Z"


# -- the server -------------------------------------------------------------------------------------------------------


class Alive(TypedDict):
    """The process runs."""

    status: Literal["ok"]


class Progress(TypedDict):
    """How many models there are, and how many of them do what."""

    total: int
    loading: int
    serving: int
    stopped: int


class Readiness(TypedDict):
    """Whether all models are loaded that can be."""

    status: Literal["ready", "starting"]
    models: Progress


class Ticket(TypedDict):
    """What opens one stream."""

    ticket: str
    expires_at: str


ALIVE = Shape(Alive, {"status": "ok"})
READINESS = Shape(Readiness, {"status": "ready", "models": {"total": 3, "loading": 0, "serving": 2, "stopped": 1}})
METRICS = Shape(str, 'hinged_log_position{model="weather"} 5.0\n')
TICKET = Shape(Ticket, {"ticket": "8bJ0v1xkq2dSgVdE0Zt3rQ", "expires_at": AT})


# -- models -----------------------------------------------------------------------------------------------------------

CONFIGURATION = {
    "solver": "lasvm",
    "kernel": {"type": "rbf", "gamma": 2.0},
    "features": {"type": "dense", "dim": 2},
    "C": 10.0,
}


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


class Models(TypedDict):
    """All models that the key covers."""

    models: list[Summary]


class PassedOver(TypedDict):
    """An event that could not be applied and was set aside."""

    position: int
    kind: str


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
    set_aside: NotRequired[list[PassedOver]]
    error: NotRequired[str]


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
    },
)
DELETED = Shape(Deleted, {"model": "weather", "deleted": True})


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


LEARN = Shape(
    LearnBody[AnyX],
    {"examples": [{"id": "mon", "x": [0.9, 0.1], "y": "sun"}, {"id": "tue", "x": [0.2, 0.8], "y": "rain"}]},
)
LEARNED = Shape(
    Learned,
    {
        "model": "weather",
        "position": 5,
        "results": [
            {"id": "mon", "prediction": None, "score": None, "duplicate": False},
            {"id": "tue", "prediction": "sun", "score": 1.0, "duplicate": False},
        ],
    },
)
PREDICT = Shape(PredictBody[AnyX], {"examples": [{"id": "wed", "x": [0.8, 0.2]}]})
PREDICTED = Shape(
    Predicted,
    {
        "model": "weather",
        "position": 5,
        "results": [
            {
                "id": "wed",
                "prediction": "sun",
                "probability": None,
                "scores": {"sun": 0.76, "rain": -0.76},
                "label": {"wanted": True, "probability": 1.0, "reason": "active"},
            }
        ],
    },
)
FINISHED = Shape(
    Finished,
    {
        "model": "weather",
        "position": 7,
        "support_vectors": 2,
        "points": 2,
        "duality_gap": 0.0,
        "steps": 2,
        "converged": True,
    },
)


# -- labels -----------------------------------------------------------------------------------------------------------


class Offered(TypedDict):
    """What became of the candidates."""

    model: str
    position: int
    added: int
    size: int
    dropped: int


class Query(TypedDict):
    """A question: which label has this example."""

    id: str
    x: AnyX
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


HEAD = {"model": "weather", "position": 8}
LEASE = "c2l4dGVlbiBieXRlcyE"
POOL = Shape(PoolBody[AnyX], {"examples": [{"id": "thu", "x": [0.5, 0.5]}, {"id": "fri", "x": [0.9, 0.9]}]})
OFFERED = Shape(Offered, {**HEAD, "added": 2, "size": 2, "dropped": 0})
ASK_EXAMPLE = {"n": 1, "annotator": "ann", "strategy": "active", "lease_s": 600.0}
QUERIES = Shape(
    Queries,
    {
        **HEAD,
        "queries": [{"id": "thu", "x": [0.5, 0.5], "lease": LEASE, "expires_at": AT, "score": 0.2, "reason": "active"}],
    },
)
PEEKED = Shape(Peeked, {**HEAD, "next": [{"id": "thu", "score": 0.2, "reason": "active"}], "leased": [], "pool": {}})
RENEWED = Shape(Renewed, {**HEAD, "id": "thu", "lease": LEASE, "expires_at": AT})
RELEASED = Shape(Released, {**HEAD, "id": "thu", "released": True})
SKIPPED = Shape(Skipped, {**HEAD, "id": "thu", "skipped": "me"})
RANK = Shape(RankBody[AnyX], {"examples": [{"id": "a", "x": [0.9, 0.1]}, {"id": "b", "x": [0.5, 0.4]}]})
RANKED = Shape(Ranked, {**HEAD, "ranking": [{"id": "b", "score": 0.2}, {"id": "a", "score": 1.0}]})
SUSPECTS = Shape(
    Suspects,
    {
        **HEAD,
        "suspects": [{"id": "mon", "label": "sun", "prediction": "rain", "margin": -0.4, "reason": "contradicts"}],
    },
)


# -- streams ----------------------------------------------------------------------------------------------------------


class StreamEvent(TypedDict):
    """One server-sent event."""

    event: str
    data: str
    id: NotRequired[str]


EVENTS = Shape(StreamEvent, {"event": "finished", "data": '{"position":6,"kind":"finished","epochs":0}', "id": "6"})


# -- the Open Inference Protocol --------------------------------------------------------------------------------------


class ServerLive(TypedDict):
    """The process runs."""

    live: bool


class ServerReady(TypedDict):
    """Whether models are loaded."""

    ready: bool


class ServerMetadata(TypedDict):
    """Name, version, extensions."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(TypedDict):
    """A tensor that is taken or given; -1 in its shape is any number."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(TypedDict):
    """The tensors of a model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ModelReady(TypedDict):
    """Whether a model predicts."""

    name: str
    ready: bool


class Inferred(TypedDict):
    """Predictions as tensors."""

    model_name: str
    model_version: str
    id: NotRequired[str]
    parameters: dict[str, Any]
    outputs: list[OutputTensor]


SERVER_LIVE = Shape(ServerLive, {"live": True})
SERVER_READY = Shape(ServerReady, {"ready": True})
SERVER_METADATA = Shape(ServerMetadata, {"name": "hinged", "version": "0.1.0", "extensions": ["binary_tensor_data"]})
MODEL_METADATA = Shape(
    ModelMetadata,
    {
        "name": "weather",
        "versions": ["1"],
        "platform": "hinged_lasvm",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
        "outputs": [{"name": "prediction", "datatype": "BYTES", "shape": [-1]}],
    },
)
MODEL_READY = Shape(ModelReady, {"name": "weather", "ready": True})
INFER_EXAMPLE = {
    "id": "one",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [0.1, 0.9, 0.9, 0.1]}],
}
INFERRED = Shape(
    Inferred,
    {
        "model_name": "weather",
        "model_version": "1",
        "id": "one",
        "parameters": {"position": 5},
        "outputs": [{"name": "prediction", "datatype": "BYTES", "shape": [2], "data": ["rain", "sun"]}],
    },
)


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


class RollBack(TypedDict):
    """The position whose state is to come back."""

    position: int


class PassOver(TypedDict):
    """The position of the event before which the model stands."""

    position: NotRequired[int]


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


File = Annotated[str, WithJsonSchema({"type": "string", "format": "binary"})]
SNAPSHOT = Shape(KeptSnapshot, {"model": "weather", "position": 8})
EXPORTED = Shape(File, "")
IMPORTED = Shape(
    Imported,
    {
        "model": "weather",
        "configuration": CONFIGURATION,
        "position": 1,
        "examples": 3,
        "classes": ["sun", "rain"],
    },
)
ROLL_BACK = Shape(RollBack, {"position": 5})
PASS_OVER = Shape(PassOver, {"position": 11})
SET_ASIDE = Shape(
    SetAside,
    {"model": "weather", "position": 12, "set_aside": {"position": 11, "kind": "learned"}, "error": None},
)
ROLLED_BACK = Shape(RolledBack, {"model": "weather", "position": 9, "rolled_back_to": 5, "examples": 3})


# -- changes ----------------------------------------------------------------------------------------------------------


class Correction(TypedDict):
    """The label that an example should have had."""

    y: Label


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
    """The challenger is gone."""

    model: str
    position: int
    shadow: str
    deleted: Literal[True]


CORRECTION = Shape(Correction, {"y": "rain"})
CHANGES = Shape(dict[str, Any], {"C": 5.0})
CHANGED = Shape(Changed, {"model": "weather", "position": 6, "job": "/jobs/weather.6"})
JOB = Shape(
    JobState,
    {
        "job": "/jobs/weather.6",
        "model": "weather",
        "kind": "forget",
        "state": "running",
        "progress": 0.5,
        "certificate": None,
    },
)
CERTIFICATE = Shape(Certified, {"model": "weather", "position": 5, "certificate": {"gap": 0.0, "support_vectors": 3}})
LEFT_OUT = Shape(LeftOut, {"model": "weather", "position": 5, "examples": 3, "errors": 1, "error": 1 / 3})
CHALLENGERS = Shape(Challengers, {"model": "weather", "position": 5, "champion": {}, "shadows": {"softer": {}}})
RETIRED = Shape(Retired, {"model": "weather", "position": 7, "shadow": "softer", "deleted": True})
