"""Reconciling: bring a model up to date with a Label Studio project. Webhooks are sent only once, so some may be lost.

Annotations are processed as if a webhook had sent them, so annotations that the model already knows change nothing.
Some examples belong to annotations that are in none of the project's tasks. Such an annotation may belong to another
project, so its example is forgotten only if Label Studio reports that the annotation does not exist.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from functools import partial
from typing import Any, cast

from hinged.answers import Reconciled, ReconciledCounts
from hinged.service import limits
from hinged.service.api.labelstudio.annotations import Annotation, Inbox, take_in
from hinged.service.api.labelstudio.shapes import AnnotatedTask, Project
from hinged.service.api.labelstudio.studio import Studio
from hinged.service.api.labelstudio.webhooks import UPSERTS, told
from hinged.service.commands.listing import Cursor, ListFilter
from hinged.service.data.slices import sliced
from hinged.service.engine.worker import Worker
from hinged.service.errors import Conflict, Invalid, ServiceError
from hinged.service.model.revisions import REMOVED_MS
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

LISTED = 1_000
OF_AN_ANNOTATION = re.compile(r"ls-([0-9]{1,19})")


async def reconciled(worker: Worker, settings: Settings, inbox: Inbox, project: int) -> Reconciled:
    """Reconcile the model with a project, and return the number of annotations for each outcome.

    Raise Conflict if the project is not connected to the model, or if no Label Studio is configured. Raise
    LabelStudioFailed. If a run is already going on, a second caller waits for that run.
    """
    url, token = settings.labelstudio_url, settings.labelstudio_token
    if url is None or token is None:
        raise Conflict(
            "no Label Studio is configured: start the server with HINGED_LABELSTUDIO_URL and HINGED_LABELSTUDIO_TOKEN"
        )
    studio = Studio(url, token.get_secret_value(), limits.IMPORT_BYTES_MAX)
    run = partial(_reconcile, worker, settings, inbox, studio, project)
    counts = await inbox.once((worker.name, project), run)
    outcomes = cast("ReconciledCounts", {name: counts[name] for name in ReconciledCounts.__annotations__})
    return {"model": worker.name, "project": project, "outcomes": outcomes}


async def _reconcile(worker: Worker, settings: Settings, inbox: Inbox, studio: Studio, project: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    try:
        await studio.open()
        if not await studio.connected(project, worker.name):
            raise Conflict(
                f"project {project} of Label Studio has no model at an address that ends with "
                f"/labelstudio/models/{worker.name}: connect it first"
            )
        of = await studio.project(project)
        async for page in studio.pages(project):
            for task in page["tasks"]:
                task["annotations"] = [each for each in task["annotations"] if each["id"] not in seen]
                seen.update(annotation["id"] for annotation in task["annotations"])
                counts += await _take_task(worker, settings, inbox, task, of)
        for annotation in sorted(await _annotations(worker) - seen):
            if await studio.is_deleted(annotation):
                gone = Annotation(annotation, changed_ms=REMOVED_MS)
                counts.update(await take_in(worker, settings, inbox, [gone]))
    finally:
        await studio.close()
    log.info("model %s is up to date with project %d of Label Studio: %s", worker.name, project, dict(counts))
    return counts


async def _take_task(
    worker: Worker, settings: Settings, inbox: Inbox, task: AnnotatedTask, project: Project
) -> Counter[str]:
    """Process the annotations of one task. If the model refuses an annotation, the server still processes the next
    annotation.
    """
    counts: Counter[str] = Counter()
    for annotation in task["annotations"]:
        one = {"id": task["id"], "data": task["data"]}
        try:
            body: Any = {"action": UPSERTS[0], "annotation": annotation, "task": one, "project": project}
            changed = await sliced(told(body, worker.published.labels))
            counts.update(await take_in(worker, settings, inbox, changed) or ["ignored"])
        except Invalid as error:
            counts["refused"] += 1
            log.warning("annotation %d was not taken in: %s", annotation["id"], error.message)
    return counts


async def _annotations(worker: Worker) -> set[int]:
    """Return the Label Studio annotations that the model has learned and not forgotten."""
    found: set[int] = set()
    listing, at = worker.listing(), Cursor()
    while True:
        page = await listing.page(ListFilter(), LISTED, at)
        ids = (OF_AN_ANNOTATION.fullmatch(example["id"]) for example in page["examples"])
        found |= {int(match[1]) for match in ids if match is not None}
        if page["next"] is None:
            return found
        at = Cursor.parse(page["next"])


async def reconciled_if_known(worker: Worker, settings: Settings, inbox: Inbox, project: int | None) -> None:
    """Reconcile if a Label Studio is configured. Log errors instead of raising them."""
    if project is None or settings.labelstudio_url is None or settings.labelstudio_token is None:
        return
    try:
        await reconciled(worker, settings, inbox, project)
    except ServiceError as error:
        log.warning("model %s could not be reconciled with project %d: %s", worker.name, project, error.message)
