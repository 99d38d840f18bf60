"""Deliver the marks of a model to the receivers of its hooks.

Each hook has its own task while a mark waits, so a receiver that hangs delays only its own hook. The task sends the
marks in order, and repeats a call until the receiver accepts it. The log then records the position, so that the next
owner of the model goes on from there. Deliveries never hold up the worker: they read its model between two events, and
record a position as a command like any other.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hinged.service import limits
from hinged.service.commands.hooks import RecordDelivered
from hinged.service.data.times import shown_time
from hinged.service.engine.hooks.calls import Calls
from hinged.service.errors import ServiceError
from hinged.service.model.curves import CurveMark
from hinged.service.model.hooks import Hook, Hooks
from hinged.service.model.model import Model
from hinged.service.settings import Settings

if TYPE_CHECKING:
    from hinged.service.engine.worker import Worker

log = logging.getLogger(__name__)

RETRY_FIRST_S = 1.0
"""Seconds before a call is repeated for the first time. Each further pause is twice as long, up to HOOK_RETRY_S_MAX."""
UNSET = "HINGED_HOOKS_SECRET is not set"


class Deliveries:
    """The calls of one model's hooks. Used on the event loop."""

    def __init__(self, owner: Worker, settings: Settings) -> None:
        self.calls = Calls(settings)
        self._owner = owner
        self._seen = Hooks()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._accepted: dict[str, int] = {}  # by hook: position up to which the receiver has accepted every mark
        self._errors: dict[str, str] = {}  # by hook: why the last call failed
        self._recording: asyncio.Task[None] | None = None
        self._stopped = False

    def look(self) -> None:
        """React to a change of the model: deliver new marks, and end the calls of hooks that were removed."""
        hooks = self._owner.model.hooks
        if hooks is self._seen or not self.calls.enabled or self._stopped or self._owner.stopped:
            return
        self._seen = hooks
        ids = {hook.id for hook in hooks.every}
        for gone in self._tasks.keys() - ids:
            self._tasks.pop(gone).cancel()
        for told in (self._accepted, self._errors):
            for gone in told.keys() - ids:
                del told[gone]
        for hook in hooks.every:
            task = self._tasks.get(hook.id)
            if (task is None or task.done()) and self._left(hook):
                self._tasks[hook.id] = asyncio.create_task(self._deliver(hook.id), name=f"hook of {self._owner.name}")

    def shown(self, model: Model) -> dict[str, Any]:
        """Return the hooks of the model, for the route that lists them."""
        return {
            "model": model.name,
            "position": model.position,
            "hooks": [
                {
                    "id": hook.id,
                    "url": hook.url,
                    "events": list(hook.events),
                    "created_at": shown_time(hook.at_ms),
                    "waiting": len(self._left(hook, model.hooks)),
                    "error": self._errors.get(hook.id) if self.calls.enabled else UNSET,
                }
                for hook in model.hooks.every
            ],
        }

    def waiting(self) -> dict[str, int]:
        """Return the number of messages that wait for each hook, by the id of the hook."""
        return {hook.id: len(self._left(hook)) for hook in self._owner.model.hooks.every}

    async def stop(self, *, record: bool) -> None:
        """Make no more calls. record: whether to record in the log what receivers have accepted."""
        self._stopped = True
        tasks = [*self._tasks.values(), *([] if self._recording is None else [self._recording])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if record and self._unrecorded():
            await self._record()

    def _left(self, hook: Hook, hooks: Hooks | None = None) -> list[CurveMark]:
        """Return the marks that the receiver has not accepted yet, oldest first."""
        since = self._accepted.get(hook.id, 0)
        waiting = (self._owner.model.hooks if hooks is None else hooks).waiting(hook)
        return [mark for mark in waiting if mark.position > since]

    async def _deliver(self, id_: str) -> None:
        while not self._owner.stopped and (hook := self._owner.model.hooks.find(id_)) and (left := self._left(hook)):
            position = left[0].position
            for mark in left:
                if mark.position == position:
                    await self._insist(hook, mark)
            self._accepted[id_] = position
            if self._recording is None or self._recording.done():
                self._recording = asyncio.create_task(self._record_soon(), name=f"delivered of {self._owner.name}")

    async def _insist(self, hook: Hook, mark: CurveMark) -> None:
        """Send a mark until the receiver accepts it."""
        wait_s = RETRY_FIRST_S
        while True:
            try:
                problem = await self.calls.send(self._owner.name, hook, mark)
            except Exception:  # one hook must not end the other hooks
                log.exception("a hook of model %s cannot be called", self._owner.name)
                problem = "the call failed; the server's log has the traceback"
            if problem is None:
                self._errors.pop(hook.id, None)
                return
            if problem != self._errors.get(hook.id):
                log.warning("hook %s of model %s is called again: %s", hook.id, self._owner.name, problem)
            self._errors[hook.id] = problem
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, limits.HOOK_RETRY_S_MAX)

    def _unrecorded(self) -> bool:
        """Return whether the log does not record everything that receivers have accepted."""
        return bool(self._owner.model.hooks.newer(self._accepted))

    async def _record_soon(self) -> None:
        while self._unrecorded() and not self._owner.stopped:
            await asyncio.sleep(limits.HOOK_RECORD_S)
            await self._record()

    async def _record(self) -> None:
        with suppress(ServiceError):  # tried again; in the end, a receiver gets some messages twice
            await self._owner.command(RecordDelivered(dict(self._accepted)))
