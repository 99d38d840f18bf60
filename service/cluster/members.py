"""Record which servers are alive and which models they own. Claim, give up and move this server's models.

A server claims a model to become the only server that may write the model.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from hinged.service.cluster.figures import Figures
from hinged.service.cluster.known import Known
from hinged.service.edge.ending import end
from hinged.service.engine.registry import Registry
from hinged.service.errors import Conflict, NotFound, StoreUnavailable, Unavailable
from hinged.service.peers.ring import first_of
from hinged.service.settings import Settings
from hinged.service.store.base import Fenced
from hinged.service.store.shares import Owner

if TYPE_CHECKING:
    from hinged.service.store.redis.shared import SharedRedisStore

log = logging.getLogger(__name__)

BEATS = 4  # number of heartbeats in the time after which a server without heartbeats counts as dead
CLAIMS_MAX = 64  # maximum number of claims in a round, because other servers may have joined by the next round
CLAIMS_AT_ONCE = 8  # maximum number of claims at the same time; each claim waits for the store's fsync
RETRY_S = 1  # seconds after which a client should ask again
HERE = ""
"""Value in place of an address; it means that this server answers."""


class Members:
    """The servers that share the store, as this server knows them. Methods run on one event loop."""

    def __init__(self, store: SharedRedisStore, registry: Registry, settings: Settings) -> None:
        assert settings.node is not None  # noqa: S101  only a node has members
        self.address = settings.node
        self.store = store
        self.registry = registry
        self.claimed = 0
        self.lost = 0
        self.moved = 0
        self.figures = Figures(registry.roster, settings.processes)
        self._ttl_s = settings.node_ttl_s
        self._drain_s = settings.shutdown_s
        self._known = Known()
        self._owners: dict[str, str] = {}  # address of the server to ask, by model
        self._beaten_at = -1e9  # time at which the last answered heartbeat was sent
        self._beating = asyncio.Lock()
        self._claiming: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # one claim at a time
        self._coming: dict[str, asyncio.Event] = {}  # models that are being claimed, until the registry contains them
        self._loading: dict[str, asyncio.Task[None]] = {}  # models that were claimed and are loading
        self._wake = asyncio.Event()  # set when there may be a model to claim
        self._search = True  # whether to look for models to claim
        self._settled = asyncio.Event()  # set once the first claims are done
        self._moving: dict[str, asyncio.Event] = {}  # models that are being moved, until the other server has them
        self._leaving: dict[str, asyncio.Task[None]] = {}  # lost models, until none of their work runs here
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self.beaten: Callable[[], None] = lambda: None
        """Called after each heartbeat that was answered."""

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to send heartbeats and to claim models."""
        self._task = asyncio.create_task(self._run(), name="beats")

    async def settled(self) -> None:
        """Wait until this server has claimed the models that it gets at its start, and has tried to load them."""
        self._wake.set()
        await self._settled.wait()
        if self._loading:
            await asyncio.wait([*self._loading.values()])

    def claim_no_more(self) -> None:
        """Only send heartbeats from now on, because the server is about to stop."""
        self._stopping = True

    async def stop(self) -> None:
        """Send no more heartbeats. Other servers claim this server's models once its store is closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, *self._leaving.values(), return_exceptions=True)

    def lose(self, name: str) -> None:
        """Give up a model that another server has claimed."""
        self.lost += 1
        log.warning("model %s: another server has claimed it; this server no longer answers for it", name)
        self.store.let_go(name)
        self._owners.pop(name, None)
        self._wake.set()
        if name not in self._leaving:
            task = self._leaving[name] = asyncio.create_task(self.registry.leave(name, within_s=None))
            task.add_done_callback(lambda _: self._leaving.pop(name))

    async def _run(self) -> None:
        # Servers that start together all send a heartbeat before the first of them claims a model.
        await self._round(claim=False)
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._ttl_s / BEATS)
                self._search = True
            self._wake.clear()  # before the round, so that a change during the round starts another round
            await self._round(claim=self.registry.open and not self._stopping)

    async def _round(self, *, claim: bool) -> None:
        try:
            await self._beat()
            if claim:
                unowned = self._unowned() if self._search else []
                self._search = bool(unowned)
                for start in range(0, min(len(unowned), CLAIMS_MAX), CLAIMS_AT_ONCE):
                    await asyncio.gather(*map(self.claim, unowned[start : start + CLAIMS_AT_ONCE]))
                if len(unowned) > CLAIMS_MAX:
                    self._wake.set()
                else:
                    self._settled.set()
        except Fenced as error:
            log.error("the server stops: %s", error.message)  # noqa: TRY400  an expected end needs no traceback
            end()
        except StoreUnavailable as error:
            log.warning("no sign of life could be given: %s", error.message)
        except Exception:
            log.exception("a round of claims failed")

    async def _beat(self) -> None:
        async with self._beating:
            sent = time.monotonic()
            self.figures.look()
            told = await asyncio.to_thread(self.store.beat, json.dumps(self.figures.of_node), self._known.since)
            lived = self._known.living()
            changed = self._known.take(told)
            self._beaten_at = sent
            self._search = self._search or bool(changed) or lived != self._known.living()
        for name, (epoch, owner) in told.owners.items():
            mine = self.store.epoch(name)
            if mine is None:
                if owner != self.address:
                    self._owners[name] = owner
            elif epoch > mine and owner != self.address:
                self.lose(name)
                self._owners[name] = owner
        for name in changed - self._known.models:
            self._owners.pop(name, None)
        self.beaten()

    # -- claims ---------------------------------------------------------------------------------------------------

    def _unowned(self) -> list[str]:
        """Return the models that this server should claim: no living server owns them, and `first_of` selects this
        server.
        """
        living = self.living()
        return sorted(
            name
            for name in self._known.models
            if self.store.epoch(name) is None
            and name not in self._moving
            and (owner := self._known.owners.get(name, (0, ""))[1]) not in living - {self.address}
            and (owner == self.address or first_of(living, name) == self.address)
        )

    def living(self) -> set[str]:
        """Return the servers that are alive, with this server."""
        return self._known.living() | {self.address}

    async def claim(self, name: str) -> bool:
        """Claim a model that no living server owns, and begin to load it. Return whether this server owns the model
        now.
        """
        lock = self._claiming.setdefault(name, asyncio.Lock())
        async with lock:
            if self.store.epoch(name) is not None:
                return True
            if name in self._leaving:
                await asyncio.wait([self._leaving[name]])
            found = await asyncio.to_thread(self.store.owner, name)
            if not found.exists:
                return False
            if found.address not in {"", self.address} and found.address in self.living():
                self._owners[name] = found.address
                await self._report(name, found)
                return False
            coming = self._coming[name] = asyncio.Event()
            try:
                if not await asyncio.to_thread(self.store.claim, name, found.epoch):
                    return False
                self._owners.pop(name, None)
                self.claimed += 1
                log.info("model %s is this server's now%s", name, f", after {found.address}" if found.address else "")
                self._take(name)
            finally:
                del self._coming[name]
                coming.set()
        return True

    async def _report(self, name: str, found: Owner) -> None:
        """Report the owner that the store names to all servers, because the owner's own report was lost."""
        await asyncio.to_thread(self.store.report, name, int(found.epoch or 0), found.address)

    def _take(self, name: str) -> None:
        task = self.registry.take(name)
        if task is not None:
            self._loading[name] = task
            task.add_done_callback(lambda _: self._loading.pop(name, None))

    # -- where models are -----------------------------------------------------------------------------------------

    async def where(self, name: str) -> str:
        """Return the address of the server that owns a model, or HERE. Raise Unavailable if no server owns it now.

        If there is no such model, return HERE: this server refuses the request or creates the model.
        """
        if time.monotonic() - self._beaten_at > self._ttl_s:
            await self._live_again()
        while (settled := self._moving.get(name) or self._coming.get(name)) is not None:
            await settled.wait()
        if self.store.epoch(name) is not None:
            return HERE
        owner = self._owners.get(name)
        if owner is None:
            found = await asyncio.to_thread(self.store.owner, name)
            if not found.exists:
                return HERE
            owner = found.address
            if owner not in {"", self.address}:
                self._owners[name] = owner
        if owner not in {"", self.address} and owner not in self._known.nodes:  # the owner may have just joined
            await self._live_again()
        if owner == self.address or not self.lives(owner):
            if self._known.owners.get(name, (0, HERE))[1] != owner:  # no answer to a heartbeat has reported this owner
                await self._report(name, await asyncio.to_thread(self.store.owner, name))
            self._wake.set()
            whom = f"was at {owner}, which is gone" if owner not in {"", self.address} else "is at no server"
            raise Unavailable(f"model {name} {whom}; a server takes it in a moment", retry_after_s=RETRY_S)
        return owner

    def known(self, name: str) -> str | None:
        """Return what `where` would return without waiting; None if `where` must wait or ask the store."""
        if name in self._moving or name in self._coming or time.monotonic() - self._beaten_at > self._ttl_s:
            return None
        if self.store.epoch(name) is not None:
            return HERE
        owner = self._owners.get(name)
        return owner if owner is not None and owner != self.address and self.lives(owner) else None

    def lives(self, address: str) -> bool:
        """Return whether a server is alive, according to this server's last heartbeat."""
        return address in self._known.nodes and self._known.nodes[address].lives

    async def _live_again(self) -> None:
        """Send a heartbeat before anything else, because other servers may have claimed this server's models."""
        try:
            await self._beat()
        except StoreUnavailable as error:
            raise Unavailable(
                f"this server has not reached the store for {self._ttl_s:g} s, and another may have its models",
                retry_after_s=RETRY_S,
            ) from error

    # -- moves ----------------------------------------------------------------------------------------------------

    async def move(self, name: str, to: str, hand: Callable[[], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
        """Move a model to another server; return the other server's answer.

        This server finishes the model's queued work, saves a snapshot and releases the model. The other server claims
        and loads the model. Meanwhile, requests for the model wait. hand: asks the other server to claim the model.
        Raise NotFound if this server does not own the model, Conflict if there is no server at `to`.
        """
        if self.store.epoch(name) is None:
            raise NotFound(f"there is no model {name!r}")
        if name in self._moving:
            raise Conflict(f"model {name} is being moved")
        if to == self.address:
            return await self.standing(name)
        if not self.lives(to):  # it may have just joined
            await self._live_again()
        if not self.lives(to):
            living = ", ".join(sorted(self.living()))
            raise Conflict(f"there is no server at {to[:200]!r}; the servers are {living}")
        there = self._moving[name] = asyncio.Event()
        try:
            try:
                await self.registry.leave(name, within_s=self._drain_s)
                await asyncio.to_thread(self.store.release, name, to)
            except BaseException:  # if the model was not released, the next round claims it again
                self.store.let_go(name)
                self._owners.pop(name, None)
                raise
            self._owners[name] = to
            self.moved += 1
            return await hand()
        finally:
            del self._moving[name]
            there.set()
            self._wake.set()

    async def take_over(self, name: str) -> dict[str, Any]:
        """Claim a model that was released for this server, and load it."""
        if not await self.claim(name):
            raise Conflict(f"model {name} is at another server")
        if name in self._loading:
            await asyncio.wait([self._loading[name]])
        return await self.standing(name)

    async def standing(self, name: str) -> dict[str, Any]:
        """Return a model's owner, the epoch of its claim, and the end of its log."""
        found = await asyncio.to_thread(self.store.owner, name)
        return _shown(name, found, None)

    # -- figures --------------------------------------------------------------------------------------------------

    async def overview(self, others: Callable[[str], Awaitable[list[dict[str, Any]]]]) -> dict[str, Any]:
        """Return the current servers and models.

        `others`: asks the server at an address for the state, memory and load of its models; returns an empty list if
        the server does not answer.
        """
        await self._beat()
        names = sorted(self._known.models)
        found = await asyncio.to_thread(
            self.store.owners, names
        )  # read first, so that later events do not count as lag
        beyond = sorted(self.living() - {self.address})
        told = [self.figures.of_models(), *await asyncio.gather(*map(others, beyond))]
        figures = {
            (address, of_model["model"]): of_model
            for address, of_models in zip((self.address, *beyond), told, strict=True)
            for of_model in of_models
        }
        models = [_shown(name, found[name], figures.get((found[name].address, name))) for name in names]
        return {"node": self.address, "nodes": self.nodes(), "models": models}

    def nodes(self) -> list[dict[str, Any]]:
        """Return the servers, as known at this server's last heartbeat."""
        return [
            {"node": address, "alive": said.lives, "beat_age_s": said.age_s, **json.loads(said.figures)}
            for address, said in sorted(self._known.nodes.items())
        ]

    def beat_age_s(self) -> float:
        """Return the seconds since this server's last heartbeat that was answered."""
        return max(0.0, time.monotonic() - self._beaten_at)


def _shown(name: str, owner: Owner, figures: dict[str, Any] | None) -> dict[str, Any]:
    """Return a model as `GET /cluster` shows it.

    figures: the owner's report about the model; None if the owner did not report the model.
    """
    found = {"model": name, "owner": owner.address or None, "epoch": int(owner.epoch or 0), "position": owner.end}
    if figures is None:
        return found
    answers_at = figures.get("position")
    lag = None if answers_at is None else max(0, owner.end - answers_at)
    more = {key: value for key, value in figures.items() if key not in {"model", "position"}}
    return {**found, "lag": lag, **more}
