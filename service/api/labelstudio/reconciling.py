"""Reconciling: bring a model up to date with a project of Label Studio. Webhooks are sent only once, so some may be lost.

Annotations are taken in as if a webhook had brought them, so known annotations change nothing. An example whose
annotation is in none of the project's tasks may belong to another project. So it is forgotten only if Label Studio says
that there is no such annotation.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

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

T = TypeVar("T")

LISTED = 1_000
OF_AN_ANNOTATION = re.compile(r"ls-([0-9]{1,19})")


async def reconciled(worker: Worker, settings: Settings, inbox: Inbox, project: int) -> Reconciled:
    """Return what became of the project's annotations.

    Conflict if the project is not connected to the model, or no Label Studio is configured. LabelStudioFailed. A second
    caller waits for the run that is under way.
    """
    url, token = settings.labelstudio_url, settings.labelstudio_token
    if url is None or token is None:
        raise Conflict(
            "no Label Studio is configured: start the server with HINGED_LABELSTUDIO_URL and HINGED_LABELSTUDIO_TOKEN"
        )
    studio = Studio(url, token.get_secret_value(), limits.IMPORT_BYTES_MAX)
    run = partial(_reconcile, worker, settings, inbox, studio, project)
    counts = await inbox.once((worker.name, project), run)
    return {"model": worker.name, "project": project, "outcomes": _counted(counts)}


def _counted(counts: Counter[str]) -> ReconciledCounts:
    return {
        "learned": counts["learned"],
        "known": counts["known"],
        "corrected": counts["corrected"],
        "forgotten": counts["forgotten"],
        "ignored": counts["ignored"],
        "refused": counts["refused"],
    }


async def _reconcile(worker: Worker, settings: Settings, inbox: Inbox, studio: Studio, project: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    try:
        await _aside(studio.open)
        if not await _aside(studio.connected, project, worker.name):
            raise Conflict(
                f"project {project} of Label Studio has no model at an address that ends with "
                f"/labelstudio/models/{worker.name}: connect it first"
            )
        of = await _aside(studio.project, project)
        pages = studio.pages(project)
        while (page := await _aside(next, pages, None)) is not None:
            for task in page["tasks"]:
                task["annotations"] = [each for each in task["annotations"] if each["id"] not in seen]
                seen.update(annotation["id"] for annotation in task["annotations"])
                counts += await _take_task(worker, settings, inbox, task, of)
        for annotation in sorted(await _annotations(worker) - seen):
            if await _aside(studio.is_deleted, annotation):
                gone = Annotation(annotation, changed_ms=REMOVED_MS)
                counts.update(await take_in(worker, settings, inbox, [gone]))
    finally:
        studio.close()
    log.info("model %s is up to date with project %d of Label Studio: %s", worker.name, project, dict(counts))
    return counts


async def _aside(function: Callable[..., T], *args: Any) -> T:
    """Run a function on a daemon thread, so that a Label Studio that hangs does not hold up the server's end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Callable[[], None]) -> None:
        if not done.done():  # the caller may have been cancelled
            result()

    def run() -> None:
        try:
            found = function(*args)
            result = partial(done.set_result, found)
        except Exception as error:  # noqa: BLE001  the caller gets it
            result = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name="labelstudio", daemon=True).start()
    return await done


async def _take_task(
    worker: Worker, settings: Settings, inbox: Inbox, task: AnnotatedTask, project: Project
) -> Counter[str]:
    """Take in the annotations of one task; an annotation that the model refuses does not stop the next."""
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
    """Return the annotations of Label Studio that the model has learned and not forgotten."""
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
    """Reconcile if a Label Studio is configured; log errors instead of raising them."""
    if project is None or settings.labelstudio_url is None or settings.labelstudio_token is None:
        return
    try:
        await reconciled(worker, settings, inbox, project)
    except ServiceError as error:
        log.warning("model %s could not be reconciled with project %d: %s", worker.name, project, error.message)
