"""Names to workers: creates, loads and deletes models, and keeps every one of them single."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from service.answers import Answer
from service.errors import Conflict, Invalid, NotFound, ServiceError, Unavailable
from service.events import Created, configuration_of, decode_event
from service.frames import BadFrame
from service.model import Model
from service.parts import MODEL_NAME, Configuration
from service.plan import LearnRequest, make_plan
from service.settings import Settings
from service.store.base import Damaged, Event, Store
from service.worker import Worker, learned_before
from solvers.warm import warm_up

log = logging.getLogger(__name__)

THREADS = 16  # mostly waiting for the store: appends of several models share an fsync


class Registry:
    """All models of a server. Methods run on one event loop."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.settings = settings
        self.ready = False
        self._store = store
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="hinged")
        self._workers: dict[str, Worker] = {}
        self._broken: dict[str, str] = {}  # models that could not be loaded, and why
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        """Compile the kernels, then load every model that the store holds."""
        started = time.monotonic()
        await self._run(warm_up, "lasvm")
        log.info("kernels are compiled, %.1f s", time.monotonic() - started)
        for name in await self._run(self._store.models):
            try:
                model = await self._run(self._load, name)
            except Exception as error:  # one bad model must not keep the others from being served
                log.exception("model %s cannot be loaded", name)
                self._broken[name] = str(error) or type(error).__name__
            else:
                self._workers[name] = Worker(model, self._store, self.settings, self._executor)
        self.ready = True
        log.info("ready with %d models, %.1f s", len(self._workers), time.monotonic() - started)

    async def stop(self) -> None:
        """Let every worker finish what it has, keep snapshots, close the store."""
        await asyncio.gather(*(worker.stop() for worker in self._workers.values()))
        await asyncio.to_thread(self._executor.shutdown)
        self._store.close()

    def summaries(self) -> list[dict[str, Any]]:
        """Every model in short, sorted by name, from what was published last; `error` where it could not be loaded."""
        self._check_ready()
        found: dict[str, dict[str, Any]] = {
            name: {"model": name, "error": error} for name, error in self._broken.items()
        }
        for name, worker in self._workers.items():
            published = worker.published
            found[name] = {
                "model": name,
                "configuration": worker.model.configuration.model_dump(mode="json"),
                "position": published.position,
                "examples": published.examples,
                "classes": list(published.labels),
            }
        return [found[name] for name in sorted(found)]

    def workers(self) -> list[tuple[str, Worker]]:
        """Every model that is loaded, by name."""
        return sorted(self._workers.items())

    def broken(self) -> list[str]:
        """The models that could not be loaded."""
        return sorted(self._broken)

    def get(self, name: str) -> Worker:
        """The worker of a model. NotFound if there is none, Unavailable if it could not be loaded."""
        self._check_ready()
        worker = self._workers.get(name)
        if worker is not None:
            return worker
        check_name(name)
        if name in self._broken:
            raise Unavailable(f"model {name} could not be loaded: {self._broken[name]}")
        raise NotFound(f"there is no model {name!r}")

    async def create(self, name: str, configuration: Configuration) -> tuple[Worker, bool]:
        """A model of this name and configuration, and whether it is new. Conflict if it is there with another one."""
        self._check_ready()
        check_name(name)
        async with self._changing:
            new = name not in self._workers and name not in self._broken
            if new:
                if len(self._workers) >= self.settings.models_max:
                    raise Conflict(f"the server has {len(self._workers)} models of at most {self.settings.models_max}")
                model = await self._run(self._begin, name, configuration)
                self._workers[name] = Worker(model, self._store, self.settings, self._executor)
            worker = self.get(name)
            if not worker.model.configuration.same_as(configuration):
                raise Conflict(
                    f"model {name!r} exists with another configuration",
                    configuration=worker.model.configuration.model_dump(mode="json"),
                )
            return worker, new

    def rehearse(self, configuration: Configuration, request: LearnRequest) -> None:
        """Raise what a new model of this configuration would say to its first request."""
        model = Model("new", configuration, **self._sizes())
        plan = make_plan(model, [request], _nothing, self.settings.classes_max, at_ms=0)
        fates = plan.fates[0]
        if isinstance(fates, ServiceError):
            raise fates

    async def delete(self, name: str) -> None:
        """Remove a model, its log and its snapshots."""
        async with self._changing:
            if name not in self._broken:
                worker = self.get(name)
                del self._workers[name]
                self._broken[name] = "its deletion was cut off; delete it again"
                await worker.stop(keep_snapshot=False)
            with suppress(KeyError):  # an earlier deletion of unknown outcome did happen
                await self._run(self._store.delete, name)
            self._broken.pop(name, None)

    def _check_ready(self) -> None:
        if not self.ready:
            raise Unavailable("the server is starting: it compiles kernels and loads models")

    async def _run(self, function: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    def _sizes(self) -> dict[str, int]:
        return {"cache_bytes": self.settings.cache_mb * 2**20, "answers_kept": self.settings.answers_kept}

    def _begin(self, name: str, configuration: Configuration) -> Model:
        warm_up(configuration.solver, configuration.dtype)
        created = Created(configuration.model_dump(mode="json"), time.time_ns() // 1_000_000)
        try:
            self._store.create(name, Event(created.KIND, created.encode()))
        except KeyError:  # an earlier creation of unknown outcome did happen: what is in the log holds
            return self._load(name)
        model = Model(name, configuration, **self._sizes())
        model.apply(1, created)
        return model

    def _load(self, name: str) -> Model:
        return load_model(self._store, name, **self._sizes())


def _nothing(_: Sequence[str]) -> Mapping[str, Answer]:
    """What the log of a new model holds."""
    return {}


def load_model(store: Store, name: str, *, cache_bytes: int, answers_kept: int) -> Model:
    """The newest good snapshot and the log behind it. Damaged or ValueError where the log itself cannot be read."""
    sizes = {"cache_bytes": cache_bytes, "answers_kept": answers_kept}
    model = None
    end = store.end(name)
    for position in store.snapshots(name):
        if position > end:
            log.warning("model %s: the snapshot at %d is not used: the log ends at %d", name, position, end)
            continue
        try:
            model = Model.restore(name, store.get_snapshot(name, position), **sizes)
            break
        except (Damaged, ValueError) as error:
            log.warning("model %s: the snapshot at %d is not used: %s", name, position, error)
    if model is not None:
        warm_up(model.configuration.solver, model.configuration.dtype)
    for position, record in store.read(name, model.position if model else 0):
        event = decode_event(record.kind, record.payload)
        if model is None:
            model = Model(name, configuration_of(event), **sizes)
            warm_up(model.configuration.solver, model.configuration.dtype)
        model.apply(position, event, partial(learned_before, store, name, position))
    if model is None:
        raise BadFrame(f"model {name} has neither a readable snapshot nor the beginning of its log")
    return model


def check_name(name: str) -> None:
    """Refuse a name that could not be a file's name or part of a key."""
    if not MODEL_NAME.fullmatch(name):
        raise Invalid(
            f"a model's name has 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-' and begins with a letter or a digit, "
            f"got {name[:80]!r}"
        )
