"""Names to workers: creates, loads and deletes models, and keeps every one of them single."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any, TypeVar

from service.answers import Answer
from service.configuration import parse_configuration
from service.errors import Conflict, Invalid, NotFound, ServiceError, Unavailable
from service.events import Created, Imported
from service.examples import check_ids
from service.exports import pack_export, unpack_export
from service.frames import BadFrame, peek
from service.labels import check_label, label_key
from service.mending import Shared
from service.model import SHADOWS_MAX, SNAPSHOT, Model
from service.parts import MODEL_NAME, Configuration
from service.plan import LearnRequest, make_plan
from service.recovery import History, load_model
from service.rehearsal import examine, rehearse
from service.settings import Settings
from service.store.base import Event, Store
from service.worker import Worker
from solvers.warm import end_compiling, warm_up

log = logging.getLogger(__name__)

T = TypeVar("T")

FOLDS = 2  # models that are folded beside those that serve, at once: each takes its memory and a thread
CLOCKS_MS = 86_400_000  # by so much the clock of a server may be ahead whose models another one imports
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
        self._shared = Shared(store, FOLDS)

    async def start(self) -> None:
        """Compile the kernels, then load every model that the store holds."""
        started = time.monotonic()
        log.info("loading the kernels; the first time on a machine they are compiled, which takes 15 to 40 s")
        await self._run(warm_up, "lasvm")
        log.info("kernels are there, %.1f s", time.monotonic() - started)
        for name in await self._run(self._store.models):
            try:
                model = await self._run(self._load, name)
            except Exception as error:  # one bad model must not keep the others from being served
                log.exception("model %s cannot be loaded", name)
                self._broken[name] = str(error) or type(error).__name__
            else:
                self._workers[name] = self._worker(model)
        self.ready = True
        log.info("ready with %d models, %.1f s", len(self._workers), time.monotonic() - started)

    async def stop(self) -> None:
        """Let every worker finish what it has, keep snapshots, close the store."""
        end_compiling()
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
        if self._is_new(name):
            self._check_models()
            # Before the lock: others are created and deleted while a solver is compiled for this one.
            await self._run(warm_up, configuration.solver, configuration.dtype)
        async with self._changing:
            new = self._is_new(name)
            if new:
                self._check_models()
                model = await self._run(self._begin, name, configuration)
                self._workers[name] = self._worker(model)
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

    async def export(self, name: str, as_of: int | None) -> tuple[int, bytes]:
        """A model as a file, and the position whose state it holds: the newest, or `as_of`.

        Invalid for a position that there is not, Conflict for one that log and snapshots no longer reach.
        """
        worker = self.get(name)
        if as_of is None:
            position, state = await worker.read(_exported)
        else:
            position, floor = as_of, await worker.read(_exportable_from)
            if position > worker.published.position:
                raise Invalid(f"as_of must be from 1 to {worker.published.position}, got {position}")
            if position < floor:
                raise Conflict(f"an example was forgotten at {floor}: no state from before may leave the server")
            history = History(self._store, name, **self._sizes())
            async with self._shared.folding:
                state = await self._run(lambda: history.at(position).snapshot())
            if position < await worker.read(_exportable_from):
                raise Conflict("an example was forgotten meanwhile: no state from before may leave the server")
        return position, await self._run(pack_export, name, position, state)

    async def import_file(self, name: str, file: IO[bytes]) -> Worker:
        """A new model from a file. Invalid if it is none that this server takes, Conflict if the name is taken."""
        self._check_ready()
        check_name(name)
        async with self._changing:
            if not self._is_new(name):
                raise Conflict(f"there is a model {name!r} already")
            self._check_models()
            model = await self._run(self._import, name, file)
            self._workers[name] = self._worker(model)
            return self._workers[name]

    async def beside(self, function: Callable[..., T], *args: Any) -> T:
        """What a long computation finds, beside those that serve."""
        async with self._shared.folding:
            found: T = await self._run(function, *args)
        return found

    def _is_new(self, name: str) -> bool:
        return name not in self._workers and name not in self._broken

    def _check_models(self) -> None:
        if len(self._workers) >= self.settings.models_max:
            raise Conflict(f"the server has {len(self._workers)} models of at most {self.settings.models_max}")

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

    def _import(self, name: str, file: IO[bytes]) -> Model:
        file.seek(0)
        now_ms = time.time_ns() // 1_000_000
        try:
            state = unpack_export(file.read())
            for configuration in self._configurations(peek(state, SNAPSHOT)):
                warm_up(configuration.solver, configuration.dtype)
            model = Model.begin(name, 1, Imported(state, now_ms), **self._sizes())
        except ValueError as error:  # whatever a file may hold that no server wrote
            raise Invalid(f"the file is no model: {_first_line(error)}") from error
        self._check_imported(model, now_ms)
        # Written as this server would write it: what is in the log can be read again.
        imported = Imported(model.snapshot(), model.at_ms)
        try:
            examine(model, imported.state)
            rehearse(model, imported.state)
        except Exception as error:  # what comes out of a state that fits together and is none has no other name
            log.warning("a file's model failed in rehearsal", exc_info=True)
            raise Invalid(f"the file's model cannot learn: {_first_line(error)}") from error
        try:
            self._store.create(name, Event(imported.KIND, imported.encode(), model.answers.given_ids))
        except KeyError:  # an earlier creation of unknown outcome did happen
            there = self._load(name)
            if there.snapshot() != model.snapshot():
                raise Conflict(f"there is a model {name!r} already; start the server again to see it") from None
            return there
        return model

    def _configurations(self, facts: dict[str, Any]) -> list[Configuration]:
        """Those of a file's model and its challengers: the limits come before anything is made that breaks them."""
        shadows = facts.get("shadows")
        if not isinstance(shadows, dict) or len(shadows) > SHADOWS_MAX or not all(map(MODEL_NAME.fullmatch, shadows)):
            raise BadFrame(f"a model has at most {SHADOWS_MAX} challengers, each with a name")
        learners = [facts.get("learner"), *shadows.values()]
        configurations = [learner.get("configuration") if isinstance(learner, dict) else None for learner in learners]
        return [parse_configuration(json.dumps(configuration), self.settings) for configuration in configurations]

    def _check_imported(self, model: Model, now_ms: int) -> None:
        settings = self.settings
        if max([model.at_ms, *(prediction.at_ms for prediction in model.pending)]) > now_ms + CLOCKS_MS:
            raise Invalid("the file's newest event lies in the future; set the clocks of the two servers")
        if len(model.labels) > settings.classes_max:
            raise Invalid(f"a model has at most {settings.classes_max} classes, the file's has {len(model.labels)}")
        for index, label in enumerate(model.labels.labels):
            check_label(label, f"classes[{index}]", settings.label_chars_max)
        declared = model.configuration.classes
        if declared is not None and list(map(label_key, declared)) != list(map(label_key, model.labels.labels)):
            raise Invalid("the file's model has other classes than its configuration declares")
        waiting = [given for part in (model.pool, model.pending) for given in (entry.id for entry in part)]
        check_ids((*model.answers.given_ids, *model.old_ids.values(), *waiting), settings.id_chars_max)
        for candidate in model.pool:
            for told in (candidate.label, *(label for _, label in candidate.votes)):
                if told is not None:
                    check_label(told, f"a label of {candidate.id!r}", settings.label_chars_max)

    def _worker(self, model: Model) -> Worker:
        return Worker(model, self._store, self.settings, self._executor, self._shared)

    def _load(self, name: str) -> Model:
        return load_model(self._store, name, **self._sizes())


def _first_line(error: Exception) -> str:
    return (str(error).partition("\n")[0] or type(error).__name__)[:200]


def _exportable_from(model: Model) -> int:
    """The position of the oldest state that may be handed out. Conflict while an example is being forgotten."""
    if any(job.kind == "forget" for job in model.jobs.running()):
        raise Conflict("an example is being forgotten; try again when that is done", retry_after_s=1)
    return model.floor


def _exported(model: Model) -> tuple[int, bytes]:
    _exportable_from(model)
    return model.position, model.snapshot()


def _nothing(_: Sequence[str]) -> Mapping[str, Answer]:
    """What the log of a new model holds."""
    return {}


def check_name(name: str) -> None:
    """Refuse a name that could not be a file's name or part of a key."""
    if not MODEL_NAME.fullmatch(name):
        raise Invalid(
            f"a model's name has 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-' and begins with a letter or a digit, "
            f"got {name[:80]!r}"
        )
