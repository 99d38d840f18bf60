"""Routes for Label Studio, below one address for each model: what its ML backends answer."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hinged.service.api.labelstudio.annotations import Annotation, Inbox, take_in, x_of
from hinged.service.api.labelstudio.shapes import (
    HEALTH,
    HEARD,
    PREDICTED,
    SETUP,
    SETUP_BODY,
    TASKS,
    TASKS_BODY,
    VERSION,
    VERSIONS,
    WEBHOOK,
    WEBHOOK_BODY,
    SentAnnotation,
    TasksBody,
    WebhookBody,
)
from hinged.service.api.openapi import operation
from hinged.service.api.wire import form_of, parsed, read_json, registry_of
from hinged.service.commands.answers import predicted
from hinged.service.commands.predict import decided_soon
from hinged.service.data.choices import Control, chosen, control_of, label_of, region_of
from hinged.service.data.examples import parse_predict, to_inputs
from hinged.service.data.inputs import Inputs, join_inputs
from hinged.service.data.parts import Configuration
from hinged.service.data.times import milliseconds
from hinged.service.edge.middleware import JSON
from hinged.service.engine.worker import Worker
from hinged.service.errors import Conflict, Invalid, QueueFull, StoreUnavailable
from hinged.service.model.metrics import QUERIED, RANDOM, STREAMED

SAMPLINGS = {"Uncertainty sampling": QUERIED, "Uniform sampling": RANDOM}
"""How a project chooses its tasks; otherwise they are a stream."""
UPSERTS = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED")

router = APIRouter(prefix="/labelstudio/models/{model}", tags=["labelstudio"], default_response_class=JSON)


@router.get("/health", openapi_extra=operation(HEALTH))
async def labelstudio_health(model: str, request: Request) -> Response:
    """There is such a model, and it serves."""
    registry_of(request).get(model)
    return JSON({"status": "UP", "model_class": "hinged"})


@router.post("/setup", openapi_extra=operation(VERSION, takes=SETUP_BODY))
async def labelstudio_setup(model: str, request: Request) -> Response:
    """A project is connected: refused where its labels are none of a classifier."""
    registry = registry_of(request)
    worker = registry.get(model)
    body = parsed(SETUP, await read_json(request, registry.settings.body_bytes_max))
    if body.get("schema"):
        _control(body["schema"])
    return JSON({"model_version": _version(worker)})


@router.get("/versions", openapi_extra=operation(VERSIONS))
async def labelstudio_versions(model: str, request: Request) -> Response:
    """The one version that there is."""
    return JSON({"versions": [_version(registry_of(request).get(model))]})


@router.post("/predict", openapi_extra=operation(PREDICTED, takes=TASKS_BODY))
async def labelstudio_predict(model: str, request: Request) -> Response:
    """Predict tasks: of each the label, and a score that is lowest where a label is worth most."""
    registry = registry_of(request)
    worker, most = registry.get(model), registry.settings.batch_examples_max
    body: TasksBody = parsed(TASKS, await read_json(request, registry.settings.body_bytes_max))
    tasks, control = body["tasks"], _control(body["label_config"])
    if len(tasks) > most:
        raise Invalid(f"tasks must be at most {most}, got {len(tasks)}")
    published, version = worker.published, _version(worker)
    read = [_inputs(task["data"], published.configuration) for task in tasks]
    taken = [r for r, inputs in enumerate(read) if inputs is not None]
    found: dict[int, dict[str, Any]] = {}
    if taken:
        inputs = join_inputs([inputs for inputs in read if inputs is not None])
        say = partial(predicted, published, [""] * len(taken))
        found = dict(zip(taken, await decided_soon(worker, published, inputs, say), strict=True))
        worker.predictions_served += len(taken)
    results = [_prediction(found.get(r), control, version) for r in range(len(tasks))]
    return JSON({"results": results, "model_version": version})


def _inputs(data: dict[str, Any], configuration: Configuration) -> Inputs | None:
    """The x of a task; None where it is none of the model's, for others are asked about with it."""
    form = form_of(configuration)
    try:
        (example,), _ = parse_predict({"x": x_of(data, form=form)}, 1, form=form)
        return to_inputs([example["x"]], configuration)
    except Invalid:
        return None


def _prediction(found: dict[str, Any] | None, control: Control, version: str) -> dict[str, Any]:
    distance = 0.0 if found is None or found["score"] is None else abs(found["score"])
    score = distance / (1.0 + distance)
    result = [] if found is None else region_of(found["prediction"], control, score)
    return {"result": result, "score": score, "model_version": version}


@router.post(
    "/webhook",
    openapi_extra=operation(HEARD, Conflict, QueueFull, StoreUnavailable, takes=WEBHOOK_BODY, statuses=(200, 202)),
)
async def labelstudio_webhook(model: str, request: Request) -> Response:
    """Something happened in a project: annotations are learned, corrected, forgotten; 202 where that goes on."""
    registry = registry_of(request)
    worker, settings = registry.get(model), registry.settings
    body: WebhookBody = parsed(WEBHOOK, await read_json(request, settings.body_bytes_max))
    inbox: Inbox = request.app.state.labelstudio
    if body["action"] == "START_TRAINING":
        outcomes = await inbox.soon(_finish(worker))
        return JSON({"model": model, "outcomes": []}, 202 if outcomes is None else 200)
    annotations = _deleted(body) if body["action"] == "ANNOTATIONS_DELETED" else _changed(body, worker, inbox)
    outcomes = await inbox.soon(take_in(worker, settings, annotations)) if annotations else []
    return JSON({"model": model, "outcomes": outcomes or []}, 202 if outcomes is None else 200)


async def _finish(worker: Worker) -> list[str]:
    await worker.finish()
    return []


def _deleted(body: WebhookBody) -> list[Annotation]:
    return [Annotation(annotation["id"]) for annotation in body.get("annotations") or []]


def _changed(body: WebhookBody, worker: Worker, inbox: Inbox) -> list[Annotation]:
    """The annotations of a change that have not been heard of in a later form; none of other actions."""
    if body["action"] not in UPSERTS:
        return []
    sent, tasks = _listed(body.get("annotation")), _listed(body.get("task"))
    project = body.get("project") or {}
    configuration = project.get("label_config")
    control = control_of(configuration) if configuration else None
    source = SAMPLINGS.get(project.get("sampling") or "", STREAMED)
    by_id = {task.get("id"): task["data"] for task in tasks}
    found = []
    for place, annotation in enumerate(sent):
        changed_ms = _changed_ms(annotation)
        if changed_ms is not None and inbox.outdated(worker.name, annotation["id"], changed_ms):
            continue
        data = by_id.get(annotation.get("task"))
        if data is None and len(tasks) == len(sent):
            data = tasks[place]["data"]
        choice = None if annotation.get("was_cancelled") else chosen(annotation.get("result") or [], control)
        if choice is not None and data is None:
            raise Invalid(f"annotation {annotation['id']}: its task is missing; the webhook must send the payload")
        label = None if choice is None else label_of(choice, worker.published.labels)
        found.append(Annotation(annotation["id"], label, data, _annotator(annotation), source))
    return found


def _listed(part: Any) -> list[Any]:
    return [] if part is None else part if isinstance(part, list) else [part]


def _changed_ms(annotation: SentAnnotation) -> float | None:
    at = annotation.get("updated_at")
    return milliseconds(at, "updated_at") if at else None


def _annotator(annotation: SentAnnotation) -> str | None:
    """Who made it: the number of the user, which is no name and no address."""
    by = annotation.get("completed_by")
    number = by.get("id") if isinstance(by, dict) else by
    return f"ls-user-{number}" if isinstance(number, int) and not isinstance(number, bool) else None


def _control(configuration: str) -> Control:
    control = control_of(configuration)
    if control is None:
        raise Invalid('the labelling configuration has no <Choices name="..." toName="..."> for a single label')
    return control


def _version(worker: Worker) -> str:
    """Always the model's name: by uncertainty Label Studio samples only tasks whose predictions bear the name that the
    backend has in the project.
    """
    return worker.name
