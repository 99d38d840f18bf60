"""Routes for examples: learn and predict."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, NotRequired

from fastapi import Query, Request
from pydantic import Field, with_config
from pydantic_core import from_json
from starlette.responses import Response
from typing_extensions import TypedDict

from hinged.answers import Learned, Predicted
from hinged.operations import LEARN_DEFAULT, PREDICT_DEFAULT, ExampleOperations, ModelOperations
from hinged.operations.base import DEFAULT, Operation
from hinged.service.api.examples.learn import LEARNING, read_request, shown_learned
from hinged.service.api.examples.predict import DECIDING, PREDICTING, predict_examples
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group, examples_dispatched
from hinged.service.api.wire import SENT, PathWorker, read_examples, registry_of
from hinged.service.data.answers import Answer
from hinged.service.data.configuration import default_configuration
from hinged.service.data.examples import (
    STRICT,
    DecideBody,
    Details,
    LearnBody,
    PredictBody,
    Raw,
    UnlabelledExample,
    parse_x,
)
from hinged.service.data.features.catalogue import AnyX
from hinged.service.data.portions import is_long, limits_of
from hinged.service.data.slices import Slices, sliced
from hinged.service.data.trees import tree
from hinged.service.edge.access import caller, require
from hinged.service.edge.middleware import JSON
from hinged.service.engine.registry import Registry
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    Conflict,
    Gone,
    Invalid,
    ModelFull,
    NoFeatures,
    NotFound,
    StoreUnavailable,
)
from hinged.service.settings import Settings

MinPosition = Annotated[int, Query(ge=0, description="position that the state must have reached, as returned by learn")]
LEARN_ERRORS = (Conflict, Gone, StoreUnavailable, ModelFull)

LEARN = Shape(
    LearnBody[AnyX],
    {"examples": [{"id": "mon", "x": [0.9, 0.1], "y": "sun"}, {"id": "tue", "x": [0.2, 0.8], "y": "rain"}]},
)
PREDICT = Shape(PredictBody[AnyX], {"examples": [{"id": "wed", "x": [0.8, 0.2]}]})

group = Group("examples")


@with_config(STRICT)
class FinishBody(TypedDict):
    """The number of epochs over the log before the finishing step."""

    epochs: NotRequired[Annotated[int, Field(ge=0, le=100)]]


# -- learning ---------------------------------------------------------------------------------------------------------


@group.serves(ExampleOperations.learn, *LEARN_ERRORS, handling=LEARNING, takes=LEARN, takes_batch=True)
async def learn(model: str, request: Request) -> Response:
    """Learn examples. Each example is predicted just before it is learned. The server answers when all examples are
    durable and learned. On a local server, or if HINGED_CREATE is set, the first call creates the model.
    """
    return await _learned(request, model, creates=registry_of(request).settings.creates)


@group.serves(LEARN_DEFAULT, *LEARN_ERRORS, answers=Learned, handling=LEARNING, takes=LEARN, takes_batch=True)
async def learn_default(request: Request) -> Response:
    """Learn examples with the model named "default". The first call creates this model."""
    return await _learned(request, DEFAULT, creates=True)


async def _learned(request: Request, model: str, *, creates: bool) -> Response:
    """Learn examples. creates: whether the examples create a model that does not exist."""
    registry = registry_of(request)
    try:
        registry.get(model)
    except NoFeatures as waiting:
        return await _learn_first(registry, request, model, waiting.template)
    except NotFound:
        if creates:
            return await _learn_first(registry, request, model, None)
        raise
    return await examples_dispatched(request, ExampleOperations.learn, model)


async def _learn_first(registry: Registry, request: Request, model: str, template: str | None) -> Response:
    """Learn the first examples. template: of a model without features; None for a model that does not exist."""
    settings = registry.settings
    body, packed = await read_examples(request, settings.body_bytes_max)
    if packed:
        raise Invalid(
            f"the first examples of model {model} must be JSON, because their form determines its features; or create "
            'the model first, with features such as {"type": "dense", "dim": 2}'
        )
    x = await sliced(_first_x(body, settings))
    configuration = default_configuration(settings.default_model if template is None else template, x, settings)
    first = await sliced(read_request(body, configuration, settings, caller(request)))
    if template is None:
        require(request, "admin")
    if None in first.contents:
        raise Invalid(f"the first examples of model {model} need x: there is no pool and no pending prediction")
    worker = await registry.create_by(first, model, configuration, template)
    again = await sliced(read_request(body, worker.published.configuration, settings))
    return JSON(shown_learned(worker, await worker.learn(again)))


def _first_x(body: Raw, settings: Settings) -> Slices[Any]:
    """Return the x of the first example, whatever its form. Return None if it has none."""
    first: list[Any] = []
    told: Any = None

    def take(_: int, examples: list[Any]) -> Slices[None]:
        first.extend(examples[: 1 - len(first)])
        yield

    if is_long(body):
        told = yield from tree(body, limits_of(None, settings), {"examples": take})
    else:
        with suppress(ValueError):  # read_request tells what is wrong
            told = from_json(body)
    if isinstance(told, dict) and isinstance(examples := told.get("examples"), list):
        told = [*first, *examples, None][0]
    return told.get("x") if isinstance(told, dict) else None


@group.serves(ModelOperations.finish, Conflict, StoreUnavailable, takes=Shape(FinishBody, {"epochs": 1}), optional=True)
async def finish(worker: PathWorker, body: Annotated[FinishBody, SENT]) -> Answer:
    """Finish the model: optimise over its points until no pair of points violates the optimality conditions by more
    than tol. If `epochs` is given, the model first learns its log that many times again. LASVM and a race then optimise
    over the whole log.
    """
    return await worker.finish(body.get("epochs", 0))


# -- predicting -------------------------------------------------------------------------------------------------------


@group.serves(ExampleOperations.predict, handling=PREDICTING, takes=PREDICT, takes_batch=True)
async def predict(model: str, request: Request, min_position: MinPosition = 0) -> Response:
    """Predict examples from the state published last. An example with an id then waits for its label."""
    _check_position(registry_of(request).get(model), min_position)
    return await examples_dispatched(request, ExampleOperations.predict, model)


@group.serves(Operation("GET", "/models/{model}/predict", role="reader"), answers=Predicted)
async def predict_one(
    worker: PathWorker, x: Annotated[str, Query(description="x as JSON")], min_position: MinPosition = 0
) -> Answer:
    """Predict one example."""
    _check_position(worker, min_position)
    published = worker.published
    example: UnlabelledExample = {"x": parse_x(x, published.configuration.features)}
    return await predict_examples(worker, published, [example], Details())


@group.serves(PREDICT_DEFAULT, NotFound, answers=Predicted, handling=PREDICTING, takes=PREDICT, takes_batch=True)
async def predict_default(request: Request, min_position: MinPosition = 0) -> Response:
    """Predict examples with the default model."""
    return await predict(DEFAULT, request, min_position)


@group.serves(Operation("GET", "/predict", role="reader", covers=DEFAULT), NotFound, answers=Predicted)
async def predict_one_default(
    request: Request, x: Annotated[str, Query(description="x as JSON")], min_position: MinPosition = 0
) -> Answer:
    """Predict one example with the default model."""
    return await predict_one(registry_of(request).get(DEFAULT), x, min_position)


# -- deciding ---------------------------------------------------------------------------------------------------------


@group.serves(
    ExampleOperations.decide,
    Conflict,
    Gone,
    StoreUnavailable,
    handling=DECIDING,
    takes=Shape(DecideBody[AnyX], {"examples": [{"id": "p1", "x": [0.8, 0.2]}]}),
    takes_batch=True,
)
async def decide(model: str, request: Request) -> Response:
    """Decide about examples by the costs of the model's configuration. An example that a person should see joins the
    pool.
    """
    return await examples_dispatched(request, ExampleOperations.decide, model)


def _check_position(worker: Worker, wanted: int) -> None:
    """Raise Invalid if a position lies beyond the newest acknowledged position."""
    newest = worker.published.position
    if wanted > newest:
        raise Invalid(f"min_position must be at most {newest}, the position of model {worker.model.name}, got {wanted}")
