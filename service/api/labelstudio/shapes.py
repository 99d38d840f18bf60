"""The bodies and answers of the routes for Label Studio. The bodies declare only the fields that the server uses,
because newer versions of Label Studio add fields.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape
from hinged.service.data.examples import STRICT

SENT = ConfigDict(strict=True)
"""Configuration of bodies from Label Studio. Types are checked strictly, but further fields are allowed."""
Id = Annotated[int, Field(ge=0, lt=2**63)]


class Health(TypedDict):
    """A model that exists."""

    status: Literal["UP"]
    model_class: str


@with_config(SENT)
class SetupBody(TypedDict):
    """A project that is being connected. The server ignores the token that is sent with the project."""

    schema: NotRequired[str | None]


class Version(TypedDict):
    """The version of a model, which is the model's name. When Label Studio samples by uncertainty, it considers only
    tasks with predictions of one version: the name that the backend has in the project.
    """

    model_version: str


class Versions(TypedDict):
    """All versions of a model."""

    versions: list[str]


@with_config(SENT)
class Task(TypedDict):
    """A task to be labelled."""

    id: NotRequired[Id | None]
    data: dict[str, Any]


@with_config(SENT)
class TasksBody(TypedDict):
    """Tasks to predict, and the labelling configuration of the tasks."""

    tasks: list[Task]
    label_config: str


class TaskPrediction(TypedDict):
    """The label predicted for a task. score: 0 on the boundary, approaching 1 far from the boundary. Tasks with the
    lowest score come first.
    """

    result: list[dict[str, Any]]
    score: float
    model_version: str


class TaskPredictions(TypedDict):
    """Predictions in the order of the tasks."""

    results: list[TaskPrediction]
    model_version: str


@with_config(SENT)
class SentAnnotation(TypedDict):
    """The current state of an annotation. was_cancelled: whether the task was skipped."""

    id: Id
    result: NotRequired[list[dict[str, Any]] | None]
    was_cancelled: NotRequired[bool | None]
    completed_by: NotRequired[Any]
    updated_at: NotRequired[str | None]
    task: NotRequired[Id | None]


@with_config(SENT)
class DeletedAnnotation(TypedDict):
    """An annotation that was deleted."""

    id: Id


@with_config(SENT)
class Project(TypedDict):
    """The project that an annotation belongs to."""

    id: NotRequired[Id | None]
    label_config: NotRequired[str | None]
    sampling: NotRequired[str | None]


@with_config(SENT)
class WebhookBody(TypedDict):
    """An event in a project."""

    action: str
    annotation: NotRequired[SentAnnotation | list[SentAnnotation] | None]
    annotations: NotRequired[list[DeletedAnnotation] | None]
    task: NotRequired[Task | list[Task] | None]
    project: NotRequired[Project | None]


class Heard(TypedDict):
    """The outcome for each annotation. The list is empty while the work continues."""

    model: str
    outcomes: list[Literal["learned", "known", "corrected", "forgotten", "ignored"]]


@with_config(SENT)
class AnnotatedTask(TypedDict):
    """A task of a project, in the format of Label Studio's API."""

    id: Id
    data: dict[str, Any]
    annotations: list[SentAnnotation]


@with_config(SENT)
class TasksPage(TypedDict):
    """One page of a project's tasks, and the total number of tasks."""

    tasks: list[AnnotatedTask]
    total: int


@with_config(SENT)
class Backend(TypedDict):
    """A model that is connected to a project."""

    url: str


@with_config(STRICT)
class ReconcileBody(TypedDict):
    """The number of a Label Studio project."""

    project: Id


LISTS: dict[str, TypeAdapter[Any]] = {
    "tasks": TypeAdapter(Annotated[list[Task], Field(fail_fast=True)]),
    "task": TypeAdapter(Annotated[list[Task], Field(fail_fast=True)]),
    "annotation": TypeAdapter(Annotated[list[SentAnnotation], Field(fail_fast=True)]),
    "annotations": TypeAdapter(Annotated[list[DeletedAnnotation], Field(fail_fast=True)]),
}
"""Parts of bodies that can be long lists."""
PROJECT: TypeAdapter[Project] = TypeAdapter(Project)
TASKS_PAGE: TypeAdapter[TasksPage] = TypeAdapter(TasksPage)
BACKENDS: TypeAdapter[list[Backend]] = TypeAdapter(list[Backend])

CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="weather" toName="text">'
    '<Choice value="sun"/><Choice value="rain"/></Choices></View>'
)
REGION = {"from_name": "weather", "to_name": "text", "type": "choices", "value": {"choices": ["sun"]}}
SETUP_BODY = Shape(SetupBody, {"schema": CONFIG})
TASKS_BODY = Shape(TasksBody, {"tasks": [{"id": 7, "data": {"x": [0.8, 0.2]}}], "label_config": CONFIG})
WEBHOOK_BODY = Shape(
    WebhookBody,
    {
        "action": "ANNOTATION_CREATED",
        "annotation": {"id": 17, "result": [REGION], "was_cancelled": False, "completed_by": 1},
        "task": {"id": 7, "data": {"x": [0.8, 0.2]}},
        "project": {"label_config": CONFIG, "sampling": "Uncertainty sampling"},
    },
)
RECONCILE_BODY = Shape(ReconcileBody, {"project": 3})
