"""Routes that make the server an ML backend of Label Studio. Each model has its own address."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Request
from starlette.responses import Response

from hinged.answers import Reconciled
from hinged.operations import LabelOperations
from hinged.operations.base import Operation
from hinged.service.api.labelstudio.annotations import Inbox, take_in
from hinged.service.api.labelstudio.choices import Control, control_of, region_of
from hinged.service.api.labelstudio.reconciling import reconciled, reconciled_if_known
from hinged.service.api.labelstudio.shapes import (
    LISTS,
    RECONCILE_BODY,
    SETUP_BODY,
    TASKS_BODY,
    WEBHOOK_BODY,
    Health,
    Heard,
    ReconcileBody,
    TaskPredictions,
    TasksBody,
    Version,
    Versions,
    WebhookBody,
)
from hinged.service.api.labelstudio.studio import LabelStudioFailed
from hinged.service.api.labelstudio.webhooks import told
from hinged.service.api.serving import Group
from hinged.service.api.wire import SENT, PathWorker, read_lists, registry_of
from hinged.service.commands.answers import predicted
from hinged.service.commands.predict import decided_soon
from hinged.service.data.answers import Answer, Parts
from hinged.service.data.examples import parse_predict, to_inputs
from hinged.service.data.inputs import Inputs, join_inputs
from hinged.service.data.parts import Configuration
from hinged.service.data.portions import checked_list
from hinged.service.data.slices import Slices, sliced
from hinged.service.edge.middleware import JSON
from hinged.service.engine.worker import Worker
from hinged.service.errors import Conflict, Invalid, StoreUnavailable
from hinged.service.settings import Settings

RESULT_VALUES = 12
"""Rough number of values in a prediction. The number decides whether an answer is made at once or in parts."""

group = Group("labelstudio", state={"labelstudio": Inbox})


@group.serves(Operation("GET", "/labelstudio/models/{model}/health", role="reader", basic=True), answers=Health)
async def labelstudio_health(worker: PathWorker) -> Answer:  # noqa: ARG001  without a model there is a refusal
    """Report that the model exists and is ready."""
    return {"status": "UP", "model_class": "hinged"}


@group.serves(
    Operation("POST", "/labelstudio/models/{model}/setup", role="reader", basic=True), answers=Version, takes=SETUP_BODY
)
async def labelstudio_setup(worker: PathWorker, request: Request) -> Answer:
    """Check a project when it is being connected. A labelling configuration without single-label choices is refused."""
    body = await read_lists(request, SETUP_BODY.adapter, {})
    if body.get("schema"):
        _control(body["schema"])
    return {"model_version": worker.name}


@group.serves(Operation("GET", "/labelstudio/models/{model}/versions", role="reader", basic=True), answers=Versions)
async def labelstudio_versions(worker: PathWorker) -> Answer:
    """List the versions of the model. There is only one version."""
    return {"versions": [worker.name]}


@group.serves(
    Operation("POST", "/labelstudio/models/{model}/predict", role="reader", basic=True),
    answers=TaskPredictions,
    takes=TASKS_BODY,
)
async def labelstudio_predict(worker: PathWorker, request: Request) -> Answer:
    """Predict tasks. Each task gets a label and a score. The score is lowest where a label is worth most."""
    most = registry_of(request).settings.batch_examples_max
    published, version = worker.published, worker.name
    read: list[Inputs | None] = []

    def take(begin: int, tasks: list[Any]) -> Slices[None]:
        for task in checked_list(tasks, "tasks", begin, LISTS["tasks"]):
            read.append(_inputs(task["data"], published.configuration))
            yield

    body: TasksBody = await read_lists(request, TASKS_BODY.adapter, LISTS, {"tasks": take})
    control = _control(body["label_config"])
    if not read:
        await sliced(take(0, body["tasks"]))
    if len(read) > most:
        raise Invalid(f"tasks must be at most {most}, got {len(read)}")
    taken = [r for r, inputs in enumerate(read) if inputs is not None]
    found: dict[int, dict[str, Any]] = {}
    if taken:
        inputs = join_inputs([inputs for inputs in read if inputs is not None])
        say = partial(predicted, published, [""] * len(taken))
        found = dict(zip(taken, await decided_soon(worker, published, inputs, say), strict=True))
        worker.predictions_served += len(taken)

    def results(begin: int, end: int) -> list[dict[str, Any]]:
        return [_prediction(found.get(r), control, version) for r in range(begin, end)]

    return {"results": Parts(len(read), RESULT_VALUES, results), "model_version": version}


def _inputs(data: dict[str, Any], configuration: Configuration) -> Inputs | None:
    """Return the x of a task, or None if the x does not fit the model. The other tasks of the request are still
    predicted.
    """
    features = configuration.features
    try:
        (example,), _ = parse_predict({"x": features.of_fields(data)}, 1, features)
        return to_inputs([example["x"]], configuration)
    except Invalid:
        return None


def _prediction(found: dict[str, Any] | None, control: Control, version: str) -> dict[str, Any]:
    distance = 0.0 if found is None or found["score"] is None else abs(found["score"])
    score = distance / (1.0 + distance)
    result = [] if found is None else region_of(found["prediction"], control, score)
    return {"result": result, "score": score, "model_version": version}


@group.serves(
    Operation("POST", "/labelstudio/models/{model}/webhook", role="writer", basic=True),
    StoreUnavailable,
    answers=Heard,
    takes=WEBHOOK_BODY,
    statuses=(200, 202),
)
async def labelstudio_webhook(worker: PathWorker, request: Request) -> Response:
    """Process an event of a project: learn, correct or forget its annotations. The answer is 202 while that work
    continues.
    """
    settings = registry_of(request).settings
    body: WebhookBody = await read_lists(request, WEBHOOK_BODY.adapter, LISTS)
    inbox: Inbox = request.app.state.labelstudio
    if body["action"] == "START_TRAINING":
        project = (body.get("project") or {}).get("id")
        outcomes = await inbox.soon(_train(worker, settings, inbox, project))
        return JSON({"model": worker.name, "outcomes": []}, 202 if outcomes is None else 200)
    annotations = await sliced(told(body, worker.published.labels))
    outcomes = await inbox.soon(take_in(worker, settings, inbox, annotations)) if annotations else []
    return JSON({"model": worker.name, "outcomes": outcomes or []}, 202 if outcomes is None else 200)


async def _train(worker: Worker, settings: Settings, inbox: Inbox, project: int | None) -> list[str]:
    await reconciled_if_known(worker, settings, inbox, project)
    await worker.finish()
    return []


@group.serves(LabelOperations.reconcile, Conflict, LabelStudioFailed, StoreUnavailable, takes=RECONCILE_BODY)
async def labelstudio_reconcile(
    worker: PathWorker, request: Request, body: Annotated[ReconcileBody, SENT]
) -> Reconciled:
    """Reconcile a model with a project: learn, correct or forget the annotations that webhooks did not deliver."""
    settings, inbox = registry_of(request).settings, request.app.state.labelstudio
    return await reconciled(worker, settings, inbox, body["project"])


def _control(configuration: str) -> Control:
    control = control_of(configuration)
    if control is None:
        raise Invalid('the labelling configuration has no <Choices name="..." toName="..."> for a single label')
    return control
