"""Names to workers: creates, loads and deletes models, and keeps every one of them single."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, TypeVar
from weakref import WeakValueDictionary

from hinged.service.commands.learn import make_plan
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.configuration import default_configuration, found_again
from hinged.service.data.parts import DEFAULT, MODEL_NAME, Configuration
from hinged.service.engine.history import History, Obstacle
from hinged.service.engine.jobs.background import Shared
from hinged.service.engine.kernels import load_kernels
from hinged.service.engine.loading import Loads
from hinged.service.engine.patience import Patience
from hinged.service.engine.positions import Positions
from hinged.service.engine.scheduling.threads import Lane, Threads
from hinged.service.engine.scheduling.turns import (
    BESIDE,
    Account,
    GivenUp,
    Turns,
    stand_back,
)
from hinged.service.engine.scheduling.yielding import Yielding
from hinged.service.engine.transfer.exports import pack_export
from hinged.service.engine.transfer.imports import read_import
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    Conflict,
    Invalid,
    NotFound,
    ServiceError,
    StoreUnavailable,
    Unavailable,
)
from hinged.service.model.answers import Answer
from hinged.service.model.events import Created
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.service.store.base import Event, Store
from hinged.solvers import warm

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRAININGS = 2  # states made beside those that serve, at once: each takes its memory and a thread
OWN_MAX = 64  # calls at once that are no model's: creations, imports, exports
ENDING_S = 5.0  # that a computation which was given up may take to notice, when the server stops

LOADING, SERVING, STOPPED = "loading", "serving", "stopped"
"""States of a model."""
COMPILING = "compiling"
"""What is done for one that is new: it is in the log, and will serve once its solver is compiled."""
CUT_OFF = "its deletion was cut off; delete it again"


class Registry:
    """All models of a server. Methods run on one event loop.

    open: whether requests are taken; each model answers as soon as it is loaded.
    ready: whether all models are loaded that can be. store: where their logs are.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.settings = settings
        self.open = False
        self.ready = False
        self.turns = Turns()
        self.store = Yielding(store)
        self._threads = Threads("hinged")
        self._own = Lane(self._threads, self.turns, most=OWN_MAX)  # for what is no model's
        self._warming = Lane(self._threads, self.turns, most=OWN_MAX)
        self._beside = self._own.beside()
        self._lanes: dict[str, tuple[Lane, Lane]] = {}  # of each model, and of its jobs
        self._workers: dict[str, Worker] = {}
        self._loads = Loads(self.turns.places)
        self._broken: dict[str, str] = {}  # models that could not be loaded, and why
        self._elsewhere: set[str] = set()  # models that were here and that another server has now
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._beginning = 0  # models that are just being created
        self._compiling: Counter[str] = Counter()  # those whose solver is compiled, or loaded, before that
        self._coming: dict[str, Configuration] = {}  # those that are in the log, and whose solver is compiled
        self._shared = Shared(self.store, RETRAININGS)
        self.positions = Positions()

    async def start(self, claims: Callable[[], Awaitable[None]] | None = None) -> None:
        """Compile the kernels and open, then load every model that the store holds, beside each other.

        Each serves as soon as it is there. claims: returns once those are loaded that are claimed first, where several
        servers share the store; before it does this one is not ready.
        """
        started = time.monotonic()
        warm.before_waiting[:] = [stand_back]
        await load_kernels(self._run)
        for name in await self._run(self.store.models):
            self._loads.add(name, Lane(self._threads, self.turns, Account(BESIDE)))
        self.open = True
        tasks = [self._loads.run(name, self._load_beside(name)) for name in self._loads]
        self._loads.begin()
        await asyncio.gather(*tasks)
        if claims is not None:
            await claims()
        self.ready = True
        log.info("ready with %d models, %.1f s", len(self._workers), time.monotonic() - started)

    async def stop(self, seconds: float | None = None) -> None:
        """Let every worker finish what it has, for so long, keep snapshots, close the store.

        What is not done by then is given up; the log has what was acknowledged.
        """
        warm.end_compiling()
        why = "the server stops"
        self._loads.give_up(why)
        ends = [asyncio.create_task(worker.stop()) for worker in self._workers.values()]
        if ends:
            await asyncio.sleep(0)  # they know now that jobs are to end
            for _, jobs in self._lanes.values():
                jobs.give_up(why)  # the next start takes them up again
            _, late = await asyncio.wait(ends, timeout=seconds)
            if late:
                log.warning("%d models have not ended what they do and give it up", len(late))
                for lane, _ in self._lanes.values():
                    lane.give_up(why)
                await asyncio.wait(late, timeout=ENDING_S)
            for end in ends:
                if not end.done():
                    end.cancel()
            for error in await asyncio.gather(*ends, return_exceptions=True):
                if isinstance(error, Exception) and not isinstance(error, GivenUp):
                    log.error("a model did not stop in order", exc_info=error)
        if not await asyncio.to_thread(self._threads.close, None if seconds is None else ENDING_S):
            log.warning("a computation did not notice that it was given up, and ends with the process")
        self.store.close()

    def summaries(self, *, configured: bool = True) -> list[dict[str, Any]]:
        """Every model in short, sorted by name, from what was published last; `error` where it has stopped.

        configured: with its configuration.
        """
        self._check_open()
        return [self._summary(name, configured=configured) for name in self.names()]

    def compiling(self) -> list[dict[str, Any]]:
        """The models that will be there once their solver is compiled, sorted by name."""
        coming = self._compiling.keys() - set(self.names())
        return [{"model": name, "state": COMPILING} for name in sorted(coming)]

    def _summary(self, name: str, *, configured: bool) -> dict[str, Any]:
        state, error = self.state(name)
        found: dict[str, Any] = {"model": name, "state": state}
        worker = self._workers.get(name)
        if worker is not None:
            published = worker.published
            if configured:
                found["configuration"] = worker.model.configuration.model_dump(mode="json")
            found |= {
                "position": published.position,
                "examples": published.examples,
                "classes": list(published.labels),
            }
        return found if error is None else {**found, "error": error}

    def names(self) -> list[str]:
        """Every model, whether it is loaded, can be or not; sorted."""
        return sorted({*self._workers, *self._loads, *self._broken})

    def state(self, name: str) -> tuple[str, str | None]:
        """What a model does that there is, and why where it has stopped."""
        worker = self._workers.get(name)
        if worker is not None:
            return (SERVING, None) if worker.failure is None else (STOPPED, worker.failure)
        if name in self._loads:
            return COMPILING if name in self._coming else LOADING, None
        return STOPPED, self._broken.get(name)

    def progress(self) -> dict[str, int]:
        """How many models there are, and how many of them are loading, serve and have stopped."""
        found = {"total": 0, LOADING: 0, SERVING: 0, STOPPED: 0}
        for name in self.names():
            found["total"] += 1
            state, _ = self.state(name)
            found[LOADING if state == COMPILING else state] += 1
        return found

    def waited(self) -> list[tuple[str, float]]:
        """Seconds that each model that is loaded has waited for a place to compute on, by name."""
        return [(name, lane.account.waited_s) for name, (lane, _) in sorted(self._lanes.items())]

    def used(self) -> dict[str, float]:
        """CPU seconds that the calls of each model that is loaded have taken, and those of its jobs, by name."""
        return {name: sum(lane.account.seconds for lane in lanes) for name, lanes in self._lanes.items()}

    def workers(self) -> list[tuple[str, Worker]]:
        """Every model that is loaded, by name."""
        return sorted(self._workers.items())

    def count_served(self, name: str, predictions: int) -> None:
        """Predictions that a reader has made with a model."""
        worker = self._workers.get(name)
        if worker is not None:
            worker.predictions_served += predictions

    def broken(self) -> list[str]:
        """The models that could not be loaded."""
        return sorted(self._broken)

    def get(self, name: str) -> Worker:
        """The worker of a model. NotFound if there is none, Unavailable if it is not loaded yet or could not be.

        One that is asked for is loaded before others.
        """
        self._check_open()
        self.turns.asked()
        worker = self._workers.get(name)
        if worker is not None:
            return worker
        check_name(name)
        self._check_compiled(name)
        if name in self._loads:
            self._loads.hurry(name)
            raise Unavailable(f"model {name} is being loaded; try again soon", retry_after_s=1, state=LOADING)
        if name in self._broken:
            raise Unavailable(f"model {name} could not be loaded: {self._broken[name]}", state=STOPPED)
        if name in self._elsewhere:
            raise Unavailable(f"model {name} is at another server by now; ask again", retry_after_s=1)
        raise NotFound(f"there is no model {name!r}")

    async def begin(self, name: str, configuration: Configuration) -> tuple[Configuration, bool, str]:
        """A model of this name: the configuration that it has, whether it is new, and its state.

        It is in the log when this returns; where its solver is to be compiled first, that goes on, and it serves later.
        Conflict if it is there with another configuration.
        """
        self._check_open()
        check_name(name)
        if self._is_new(name) and not await self._compiled(name, configuration):
            async with self._alone(name):
                if self._is_new(name):
                    async with self._room():
                        await self._run(self._create_log, name, configuration)
                    self._coming[name] = configuration
                    self._loads.add(name, Lane(self._threads, self.turns))
                    self._loads.run(name, self._load_beside(name))
                    self._loads.hurry(name)
                    return configuration, True, COMPILING
        if name in self._coming:
            return _same(name, self._coming[name], configuration), False, COMPILING
        worker, new = await self.create(name, configuration)
        return worker.model.configuration, new, SERVING

    async def _compiled(self, name: str, configuration: Configuration) -> bool:
        """Whether the solver of a new model is compiled; it is loaded then."""
        return await self._warm(warm.load, name, configuration)

    async def _warm(self, function: Callable[[str, type], T], name: str, configuration: Configuration) -> T:
        """What a function of the solvers says that loads, or compiles, what a new model needs; it is told meanwhile."""
        self._check_models()
        self._compiling[name] += 1
        try:
            found: T = await self._run(function, configuration.solver, configuration.dtype, lane=self._warming)
        finally:
            self._compiling -= Counter((name,))
        return found

    async def create(self, name: str, configuration: Configuration) -> tuple[Worker, bool]:
        """A model of this name and configuration, and whether it is new. Conflict if it is there with another one."""
        self._check_open()
        check_name(name)
        if self._is_new(name):
            # Before the lock: a model of this name can be deleted while a solver is compiled for it.
            await self._warm(warm.warm_up_first, name, configuration)
        async with self._alone(name):
            new = self._is_new(name)
            if new:
                async with self._room():
                    self._serve(*await self._run(self._begin_log, name, configuration))
            worker = self.get(name)
            _same(name, worker.model.configuration, configuration)
            return worker, new

    def default_template(self) -> Configuration:
        """The default model's configuration as far as it needs no example: the width is yet to come."""
        return default_configuration(self.settings.default_model, dense=True, dim=1, settings=self.settings)

    async def create_default(self, xs: Sequence[Any], read: Callable[[Configuration], LearnRequest]) -> Worker:
        """The default model, made from the x of its first examples; the one that is there if others came before them.

        read: their request, as a configuration reads it. Nothing of a bad one is kept, so no model of its width either.
        """
        dense = isinstance(xs[0], list)
        dim = len(xs[0]) if dense else 0
        configuration = default_configuration(self.settings.default_model, dense, dim, self.settings)
        self.rehearse(configuration, read(configuration))
        try:
            await self.begin(DEFAULT, configuration)
        except Conflict:
            with suppress(NotFound):  # another first request came before this one, with an x of another form
                return self.get(DEFAULT)
            raise
        return self.get(DEFAULT)

    def rehearse(self, configuration: Configuration, request: LearnRequest) -> None:
        """Raise what a new model of this configuration would say to its first request."""
        model = Model("new", configuration, **self.settings.model_sizes)
        plan = make_plan(model, [request], _nothing, self.settings.classes_max, at_ms=0)
        planned = plan.planned[0]
        if isinstance(planned, ServiceError):
            raise planned

    async def delete(self, name: str) -> None:
        """Remove a model, its log and its snapshots; what it computes is given up."""
        self._check_open()
        self._check_compiled(name)
        async with self._alone(name):
            why = f"model {name} was deleted"
            if name in self._loads:
                self._broken[name] = CUT_OFF
                await self._loads.cut_off(name, why)
            if name not in self._broken:
                worker = self.get(name)
                del self._workers[name]
                self.positions.end(name)
                self._broken[name] = CUT_OFF
                for lane in self._lanes.pop(name):
                    lane.give_up(why)
                await worker.stop(keep_snapshot=False)
            with suppress(KeyError):  # an earlier deletion of unknown outcome did happen
                await self._run(self.store.delete, name)
            self._broken.pop(name, None)

    def take(self, name: str) -> asyncio.Task[None] | None:
        """Load a model that another server has written until now; None where it is loaded or being loaded."""
        self._elsewhere.discard(name)
        if not self._is_new(name):
            return None
        self._loads.add(name, Lane(self._threads, self.turns, Account(BESIDE)))
        task = self._loads.run(name, self._load_beside(name))
        self._loads.begin()
        return task

    async def leave(self, name: str, *, within_s: float | None) -> None:
        """Have a model no more, which stays in the store: another server is its writer, or is to be.

        within_s: that it gets to do what has queued up and to keep a snapshot; None where it can write no more.
        """
        async with self._alone(name):
            why = f"model {name} goes to another server"
            self._elsewhere.add(name)
            if name in self._loads:
                await self._loads.cut_off(name, why)
            self._broken.pop(name, None)
            worker = self._workers.pop(name, None)
            if worker is None:
                return
            self.positions.end(name)
            lanes = self._lanes.pop(name)
            ending = asyncio.create_task(worker.stop(keep_snapshot=within_s is not None, why=why))
            await asyncio.wait([ending], timeout=within_s or 0)
            if not ending.done():
                for lane in lanes:
                    lane.give_up(why)
            with suppress(GivenUp, StoreUnavailable):
                await ending

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
            history = History(self.store, name, **self.settings.model_sizes)
            state = await self.beside(lambda: history.at(position).snapshot())
            if position < await worker.read(_exportable_from):
                raise Conflict("an example was forgotten meanwhile: no state from before may leave the server")
        return position, await self._run(pack_export, name, position, state, lane=self._beside)

    async def import_file(self, name: str, file: IO[bytes]) -> Worker:
        """A new model from a file. Invalid if it is none that this server takes, Conflict if the name is taken."""
        self._check_open()
        check_name(name)
        async with self._alone(name):
            if not self._is_new(name):
                raise Conflict(f"there is a model {name!r} already")
            async with self._room():
                return self._serve(await self._run(self._import, name, file, lane=self._beside))

    async def beside(self, function: Callable[..., T], *args: Any) -> T:
        """What a long computation finds, beside those that serve."""
        async with self._shared.places:
            found: T = await self._run(function, *args, lane=self._beside)
        return found

    # -- loading --------------------------------------------------------------------------------------------------

    async def _load_beside(self, name: str) -> None:
        """Load one model once it may begin; whatever comes of it, others go on."""
        async with self._loads.turn(name) as lane:
            try:
                found = await self._loaded(name, lane)
                if name in self._loads:
                    self._serve(*found)
            except (GivenUp, warm.Ended):  # it is being deleted, or the server stops
                pass
            except asyncio.CancelledError:
                lane.give_up("the server stops")
                raise
            except BaseException as error:  # one bad model must not keep the others from being served
                log.exception("model %s cannot be loaded", name)
                if name in self._loads:
                    self._broken[name] = str(error) or type(error).__name__
            finally:
                self._coming.pop(name, None)

    async def _loaded(self, name: str, lane: Lane) -> tuple[Model, Obstacle | None]:
        """A model of the store, which is waited for where it is away."""
        patience = Patience(name)
        while True:
            try:
                found: tuple[Model, Obstacle | None] = await self._run(self._load, name, lane=lane)
            except StoreUnavailable as error:
                await asyncio.sleep(patience.after(error))
            else:
                return found

    def _serve(self, model: Model, obstacle: Obstacle | None = None) -> Worker:
        lane = Lane(self._threads, self.turns)
        jobs, readers = lane.beside(), lane.readers()
        worker = Worker(model, self.store, self.settings, lane, self._shared, obstacle, beside=jobs, readers=readers)
        worker.moved = self.positions.begin(model.name, model.position)
        self._lanes[model.name], self._workers[model.name] = (lane, jobs), worker
        self._elsewhere.discard(model.name)
        return worker

    # -- what all of this needs -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """One creation, import or deletion of a name at a time; those of others go on."""
        lock = self._changing.get(name)
        if lock is None:
            lock = self._changing[name] = asyncio.Lock()
        async with lock:
            yield

    @asynccontextmanager
    async def _room(self) -> AsyncIterator[None]:
        """Conflict if there is no room for another model; meanwhile it counts as one."""
        self._check_models()
        self._beginning += 1
        try:
            yield
        finally:
            self._beginning -= 1

    def _is_new(self, name: str) -> bool:
        return name not in self._workers and name not in self._loads and name not in self._broken

    def _check_models(self) -> None:
        count = len(self._workers) + len(self._loads) + self._beginning
        if count >= self.settings.models_max:
            raise Conflict(f"the server has {count} models of at most {self.settings.models_max}")

    def _check_compiled(self, name: str) -> None:
        if name in self._coming:
            raise Unavailable(
                f"the solver of model {name} is being compiled; try again soon", retry_after_s=1, state=COMPILING
            )

    def _check_open(self) -> None:
        if not self.open:
            raise Unavailable("the server is starting: it compiles kernels and looks for models", retry_after_s=1)

    async def _run(self, function: Any, *args: Any, lane: Lane | None = None) -> Any:
        return await asyncio.get_running_loop().run_in_executor(lane or self._own, function, *args)

    def _create_log(self, name: str, configuration: Configuration) -> Created | None:
        """The first event of a new log; None if it is there: an earlier creation of unknown outcome did happen."""
        created = Created(configuration.model_dump(mode="json"), time.time_ns() // 1_000_000)
        try:
            self.store.create(name, Event(created.KIND, created.encode()))
        except KeyError:
            return None
        return created

    def _begin_log(self, name: str, configuration: Configuration) -> tuple[Model, Obstacle | None]:
        warm.warm_up_first(configuration.solver, configuration.dtype)
        created = self._create_log(name, configuration)
        if created is None:  # what is in the log holds
            return self._load(name)
        model = Model(name, configuration, **self.settings.model_sizes)
        model.apply(1, created)
        return model, None

    def _import(self, name: str, file: IO[bytes]) -> Model:
        model, imported = read_import(name, file, self.settings, self.settings.model_sizes)
        try:
            self.store.create(name, Event(imported.KIND, imported.encode(), model.answers.given_ids))
        except KeyError:  # an earlier creation of unknown outcome did happen
            there, _ = self._load(name)
            if there.snapshot() != model.snapshot():
                raise Conflict(f"there is a model {name!r} already; start the server again to see it") from None
            return there
        return model

    def _load(self, name: str) -> tuple[Model, Obstacle | None]:
        return History(self.store, name, **self.settings.model_sizes).reached()


def _exportable_from(model: Model) -> int:
    """The position of the oldest state that may be handed out. Conflict while an example is being forgotten."""
    if any(job.kind == "forget" for job in model.jobs.running()):
        raise Conflict("an example is being forgotten; try again when that is done", retry_after_s=1)
    return model.floor


def _exported(model: Model) -> tuple[int, bytes]:
    _exportable_from(model)
    return model.position, model.snapshot()


def _same(name: str, there: Configuration, wanted: Configuration) -> Configuration:
    """The configuration of a model that is there. Conflict if it is another than is wanted."""
    if not there.same_as(found_again(wanted, there)):
        raise Conflict(f"model {name!r} exists with another configuration", configuration=there.model_dump(mode="json"))
    return there


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
