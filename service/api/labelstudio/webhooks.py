"""Reads the annotations in a webhook's body."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from hinged.service.api.labelstudio.annotations import Annotation
from hinged.service.api.labelstudio.choices import chosen, control_of, label_of
from hinged.service.api.labelstudio.shapes import SentAnnotation, WebhookBody
from hinged.service.data.classes import Label
from hinged.service.data.slices import Slices
from hinged.service.data.times import milliseconds
from hinged.service.errors import Invalid
from hinged.service.model.metrics import QUERIED, RANDOM, STREAMED
from hinged.service.model.revisions import REMOVED_MS

SAMPLINGS = {"Uncertainty sampling": QUERIED, "Uniform sampling": RANDOM}
"""The source of a label by how the project chooses its tasks; any other way counts as a stream."""
AHEAD_S = 86_400.0
"""Seconds that Label Studio's clock may be ahead. A later time is refused, because it would make the model ignore the
annotation's changes until then."""
UPSERTS = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED")


def told(body: WebhookBody, labels: Sequence[Label]) -> Slices[list[Annotation]]:
    """Return the annotations in a webhook's body; most actions have no annotations. labels: those that the model knows.
    Invalid.
    """
    if body["action"] == "ANNOTATIONS_DELETED":
        return [Annotation(annotation["id"], changed_ms=REMOVED_MS) for annotation in body.get("annotations") or []]
    return (yield from _changed(body, labels)) if body["action"] in UPSERTS else []


def _changed(body: WebhookBody, labels: Sequence[Label]) -> Slices[list[Annotation]]:
    sent, tasks = _listed(body.get("annotation")), _listed(body.get("task"))
    project = body.get("project") or {}
    configuration = project.get("label_config")
    control = control_of(configuration) if configuration else None
    source = SAMPLINGS.get(project.get("sampling") or "", STREAMED)
    by_id = {task.get("id"): task["data"] for task in tasks}
    found = []
    for place, annotation in enumerate(sent):
        data = by_id.get(annotation.get("task"))
        if data is None and len(tasks) == len(sent):
            data = tasks[place]["data"]
        choice = None if annotation.get("was_cancelled") else chosen(annotation.get("result") or [], control)
        if choice is not None and data is None:
            raise Invalid(
                f"annotation {annotation['id']}: its task is missing; configure the webhook to send the payload"
            )
        label = None if choice is None else label_of(choice, labels)
        changed_ms = _changed_ms(annotation)
        found.append(Annotation(annotation["id"], label, data, _annotator(annotation), source, changed_ms))
        if len(sent) > 1:
            yield
    return found


def _listed(part: Any) -> list[Any]:
    return [] if part is None else part if isinstance(part, list) else [part]


def _changed_ms(annotation: SentAnnotation) -> int | None:
    at = annotation.get("updated_at")
    if not at:
        return None
    changed_ms = milliseconds(at, "updated_at")
    if changed_ms > 1000 * (time.time() + AHEAD_S):
        raise Invalid(f"updated_at must be at most a day ahead of the server's clock, got {at[:40]!r}")
    return max(0, int(changed_ms))


def _annotator(annotation: SentAnnotation) -> str | None:
    """Return who made the annotation, as the user's number: neither name nor address."""
    by = annotation.get("completed_by")
    number = by.get("id") if isinstance(by, dict) else by
    return f"ls-user-{number}" if isinstance(number, int) and not isinstance(number, bool) else None
