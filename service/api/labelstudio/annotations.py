"""Turn annotations of Label Studio into examples. Each annotation becomes one example, whose id is made from the
annotation's id.

A deletion in Label Studio names only annotations. The id of the annotation determines the id of the example, so the
server needs no table of tasks. If two annotators label a task, the result is two examples with the same x. Like any
forgotten example, a forgotten annotation is not learned again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from hinged.service.api.examples.learn import learn_request
from hinged.service.commands.change import Correct, Forget, Hear
from hinged.service.commands.planned import Provenance
from hinged.service.data.classes import Label, same_label
from hinged.service.data.examples import parse_learn
from hinged.service.engine.worker import Worker
from hinged.service.errors import Conflict, Gone, NotFound, QueueFull, ServiceError
from hinged.service.model.model import Model
from hinged.service.model.revisions import REMOVED_MS
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

SOON_S = 0.08
"""Maximum number of seconds before a webhook is answered, even if its work continues. A webhook is part of the
annotator's own request, so a longer wait slows the annotator down.
"""
WAITING_MAX = 1_000


class Annotation(NamedTuple):
    """An annotation as last seen in Label Studio.

    label, data: None if the annotator chose nothing, or if the annotation is deleted.
    source: the source of the label, as defined in metrics.py.
    changed_ms: time of the last change of the annotation. REMOVED_MS if the annotation is deleted, None if the time is
    unknown.
    """

    id: int
    label: Label | None = None
    data: Mapping[str, Any] | None = None
    annotator: str | None = None
    source: int = 0
    changed_ms: int | None = None

    @property
    def given(self) -> str:
        """Return the id of the example that belongs to the annotation."""
        return f"ls-{self.id}"


class Inbox:
    """Webhooks whose work has not finished."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[list[str]]] = set()
        self._under_way: dict[tuple[str, int], asyncio.Task[Counter[str]]] = {}
        self._locks: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()

    def alone(self, model: str, annotation: Annotation) -> asyncio.Lock:
        """Return the lock to hold while this annotation is processed. The lock makes sure that the later of two changes
        takes effect last.
        """
        return self._locks.setdefault((model, annotation.id), asyncio.Lock())

    async def once(self, key: tuple[str, int], work: Callable[[], Coroutine[Any, Any, Counter[str]]]) -> Counter[str]:
        """Return the result of `work`. If work for this key is already running, wait for that work instead of starting
        `work`. The work continues even if nobody waits.
        """
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    def _ended(self, key: tuple[str, int], task: asyncio.Task[Counter[str]]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # read the error, so that the event loop does not report an error that nobody waits for

    async def soon(self, work: Coroutine[Any, Any, list[str]]) -> list[str] | None:
        """Return the result of `work` or raise its error. Return None if the work takes longer than SOON_S. Raise
        QueueFull.
        """
        if len(self._tasks) >= WAITING_MAX:
            work.close()
            raise QueueFull(f"{WAITING_MAX} webhooks are already waiting")
        task = asyncio.create_task(work)
        self._tasks.add(task)
        done, _ = await asyncio.wait({task}, timeout=SOON_S)
        if not done:
            task.add_done_callback(_log_failure)
        task.add_done_callback(self._tasks.discard)
        return task.result() if done else None


def _log_failure(task: asyncio.Task[list[str]]) -> None:
    """Log the error of a task for which no request waits any more."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, ServiceError):
        log.warning("an annotation was not taken in: %s", error.message)
    elif error is not None:
        log.error("an annotation was not taken in", exc_info=error)


async def take_in(worker: Worker, settings: Settings, inbox: Inbox, annotations: Iterable[Annotation]) -> list[str]:
    """Learn, correct or forget annotations one by one, and return the outcomes.

    An annotation is skipped if the model already knows a later change of it.
    """
    outcomes = []
    for annotation in annotations:
        async with inbox.alone(worker.name, annotation):
            known_ms = await worker.read(partial(_known_ms, given=annotation.given))
            if annotation.changed_ms is None or annotation.changed_ms >= known_ms:
                outcomes.append(await _take(worker, settings, annotation))
            elif known_ms == REMOVED_MS:
                outcomes.append("ignored")
    return outcomes


def _known_ms(model: Model, given: str) -> int:
    return model.revisions.of(given) or 0


async def _take(worker: Worker, settings: Settings, annotation: Annotation) -> str:
    label, data, given, changed_ms = annotation.label, annotation.data, annotation.given, annotation.changed_ms
    try:
        if label is None or data is None:
            await worker.change(Forget(given))
            return "forgotten"
        configuration = worker.published.configuration
        x = configuration.features.of_fields(data)
        body = {"examples": [{"id": given, "x": x, "y": label}]}
        examples = parse_learn(body, settings.batch_examples_max, configuration.features)
        elsewhere = [Provenance(annotation.annotator, annotation.source, changed_ms)]
        try:
            answer = await worker.learn(learn_request(body, examples, configuration, settings, elsewhere))
        except Conflict:  # the example now has another label or another task
            if not same_label(label, (await worker.example(given))["label"]):
                by = annotation.annotator
                await worker.change(Correct(given, label, settings.classes_max, annotator=by, changed_ms=changed_ms))
                return "corrected"
            if changed_ms is not None:
                await worker.command(Hear(given, changed_ms))
            return "known"
    except Gone:  # the example was forgotten before
        return "ignored"
    except NotFound:  # never learned
        if changed_ms is not None:
            await worker.command(Hear(given, changed_ms))
        return "ignored"
    return "known" if answer.results[0].duplicate else "learned"
