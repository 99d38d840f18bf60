"""The registry creates, loads and deletes models. For each name it makes one change at a time. The roster lists the
models.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import IO, Any, TypeVar
from weakref import WeakValueDictionary

from hinged.service import limits
from hinged.service.commands.learn import rehearse
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.configuration import (
    STAND_IN,
    default_configuration,
    found_again,
    new_configuration,
    shown_configuration,
)
from hinged.service.data.parts import Configuration
from hinged.service.engine import creation
from hinged.service.engine.history import ModelHistory, Obstacle
from hinged.service.engine.jobs.background import Shared
from hinged.service.engine.kernels import load_kernels
from hinged.service.engine.loading import Loads
from hinged.service.engine.patience import PASSING, Patience
from hinged.service.engine.positions import Positions
from hinged.service.engine.roster import (
    COMPILING,
    SERVING,
    WAITING,
    Roster,
    Running,
    another_configuration,
    check_name,
)
from hinged.service.engine.scheduling.gates import Gates
from hinged.service.engine.scheduling.threads import Lane, Threads, default_executor
from hinged.service.engine.scheduling.turns import GivenUp, Turns, stand_back
from hinged.service.engine.scheduling.yielding import Yielding
from hinged.service.engine.transfer.exports import exported, log_export, pack_export
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    Conflict,
    Invalid,
    NoFeatures,
    NotFound,
    StoreUnavailable,
    Unavailable,
)
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.service.store.base import NoModel, Store
from hinged.solvers import warm

log = logging.getLogger(__name__)

T = TypeVar("T")

ENDING_S = 5.0  # seconds that given-up computations may take to end when the server stops

CUT_OFF = "its deletion was cut off; delete it again"


class Registry:
    """All models of a server. Methods run on one event loop.

    open: whether requests are accepted; each model answers as soon as it is loaded. ready: whether every model that can
    be loaded is loaded. store: contains the models' logs. roster: lists the models.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.settings = settings
        self.open = False
        self.ready = False
        self.turns = Turns()
        self._gates = Gates(self.turns.places)
        self.store = Yielding(store)
        self._threads = Threads("hinged")
        self._own = Lane(self._threads, self.turns, most=limits.SERVER_CALLS_MAX)  # runs calls that belong to no model
        self._warming = Lane(self._threads, self.turns, most=limits.SERVER_CALLS_MAX)
        self._beside = Lane(self._threads, self.turns, most=limits.SERVER_CALLS_MAX)
        self.roster = Roster(Loads(self.turns.places), settings.models_max)
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._shared = Shared(self.store, limits.RETRAININGS_MAX)
        self.positions = Positions()

    async def start(self, claims: Callable[[], Awaitable[None]] | None = None) -> None:
        """Load or compile the kernels, accept requests, then load every model of the store, several at once.

        Each model answers requests as soon as it is loaded. claims: a function, given if several servers share the
        store. It returns once this server has loaded the models that it claims first. Until then this server is not
        ready.
        """
        asyncio.get_running_loop().set_default_executor(default_executor())
        started, loads = time.monotonic(), self.roster.loads
        warm.before_waiting[:] = [stand_back]
        await load_kernels(self._run)
        gc.freeze()  # exempt modules and kernels; otherwise each garbage collection would scan them
        for name in await self._run(self.store.models):
            loads.add(name, self.lane())
        self.open = True
        tasks = [loads.run(name, self._load_beside(name)) for name in loads]
        loads.begin()
        await asyncio.gather(*tasks)
        if claims is not None:
            await claims()
        self.ready = True
        log.info("ready with %d models, %.1f s", len(self.roster.running), time.monotonic() - started)

    async def stop(self, seconds: float | None = None) -> None:
        """Let every worker finish its work for up to `seconds`, save snapshots, and close the store.

        Work that is not done by then is given up. The log contains everything that was acknowledged.
        """
        warm.end_compiling()
        why = "the server stops"
        self.roster.loads.give_up(why)
        running = self.roster.running
        ends = [asyncio.create_task(model.worker.stop()) for model in running.values()]
        if ends:
            await asyncio.sleep(0)  # now the workers begin to stop their jobs
            for model in running.values():
                model.jobs.give_up(why)  # the next start resumes the jobs
            _, late = await asyncio.wait(ends, timeout=seconds)
            if late:
                log.warning("%d models have not finished their work in time; it is given up", len(late))
                for model in running.values():
                    model.lane.give_up(why)
                await asyncio.wait(late, timeout=ENDING_S)
            for end in ends:
                if not end.done():
                    end.cancel()
            for error in await asyncio.gather(*ends, return_exceptions=True):
                if isinstance(error, Exception) and not isinstance(error, GivenUp):
                    log.error("a model did not stop in order", exc_info=error)
        if not await asyncio.to_thread(self._threads.close, None if seconds is None else ENDING_S):
            log.warning("a computation did not notice that it was given up; it ends with the process")
        self.store.close()

    def get(self, name: str) -> Worker:
        """Return the worker of a model from the roster. Raise Unavailable while the server starts."""
        roster = self.opened()
        self.turns.asked()
        return roster.find(name)

    def opened(self) -> Roster:
        """Return the roster, once requests are accepted. Raise Unavailable before that."""
        if not self.open:
            raise Unavailable("the server is starting: it compiles kernels and looks for models", retry_after_s=1)
        return self.roster

    async def announce(self, name: str, template: str) -> tuple[dict[str, Any], bool, str]:
        """Begin a model without features unless it exists; return its configuration, whether it is new, and its state.

        template: the configuration apart from the features, as JSON. Raise the errors of `begin`.
        """
        roster = self.opened()
        check_name(name)
        async with self._alone(name):
            if roster.lacks(name):
                there, new = roster.waiting.get(name), name not in roster.waiting
                if new:
                    with roster.room(name):
                        there = await self._run(creation.announce, self.store, name, template)
                else:
                    await self._run(self.store.end, name)
                if there is not None:
                    roster.waiting[name] = there
                    if not self._stand_in(there).same_as(self._stand_in(template)):
                        raise another_configuration(name, json.loads(there))
                    return json.loads(there), new, WAITING
                self.take(name)
        present = roster.coming.get(name) or self.get(name).model.configuration
        wanted = json.loads(template) | {"features": present.features.model_dump(mode="json")}
        found, new, state = await self.begin(name, new_configuration(json.dumps(wanted), self.settings))
        return shown_configuration(found), new, state

    def _stand_in(self, template: str) -> Configuration:
        return default_configuration(template, STAND_IN, self.settings)

    async def begin(
        self, name: str, configuration: Configuration, template: str | None = None
    ) -> tuple[Configuration, bool, str]:
        """Begin a model with this name unless it exists; return its configuration, whether it is new, and its state.

        On return the model is in the log. If its solver must be compiled first, compilation continues and the model
        serves later. Raise Conflict if the model exists with another configuration, NoModel if the model is in memory
        but not in the store. template: of the model without features that gets this configuration.
        """
        roster = self.opened()
        check_name(name)
        if roster.lacks(name) and not await self._compiled(name, configuration, template):
            async with self._alone(name):
                if roster.lacks(name):
                    with roster.room(name, template):
                        await self._run(creation.begin_log, self.store, name, configuration)
                    roster.waiting.pop(name, None)
                    roster.coming[name] = configuration
                    roster.loads.add(name, Lane(self._threads, self.turns))
                    roster.loads.run(name, self._load_beside(name))
                    roster.loads.hurry(name)
                    return configuration, True, COMPILING
        if name in roster.coming:
            found = _same(name, roster.coming[name], configuration)
            await self._run(self.store.end, name)
            return found, False, COMPILING
        worker, new = await self.create(name, configuration, template)
        return worker.model.configuration, new, SERVING

    async def _compiled(self, name: str, configuration: Configuration, template: str | None) -> bool:
        """Return whether the solver of a new model is compiled. A compiled solver is loaded."""
        return await self._warm(warm.load, name, configuration, template)

    async def _warm(
        self, function: Callable[[str, type], T], name: str, configuration: Configuration, template: str | None
    ) -> T:
        """Run a function that loads or compiles the solver of a new model. Meanwhile the roster lists the name."""
        self.roster.check_room(name, template)
        with self.roster.wanted(name):
            found: T = await self._run(function, configuration.solver, configuration.dtype, lane=self._warming)
        return found

    async def create(self, name: str, configuration: Configuration, template: str | None = None) -> tuple[Worker, bool]:
        """Create a model with this name unless it exists; return its worker, and whether it is new.

        Raise the errors of `begin`. template: as in `begin`.
        """
        roster = self.opened()
        check_name(name)
        if roster.lacks(name):
            # The lock is not held here, so that a model with this name can be deleted while its solver is compiled.
            await self._warm(warm.warm_up_first, name, configuration, template)
        async with self._alone(name):
            new = roster.lacks(name)
            if new:
                with roster.room(name, template):
                    model, obstacle = await self._run(creation.create, self.store, name, configuration, self.settings)
                    self._serve(model, obstacle)
            worker = self.get(name)
            _same(name, worker.model.configuration, configuration)
            if not new:
                await self._run(self.store.end, name)  # raises NoModel if the store has lost the model
            return worker, new

    async def create_by(
        self, request: LearnRequest, name: str, configuration: Configuration, template: str | None
    ) -> Worker:
        """Create the model of the first examples. If another request has created it already, return that model.

        request: the first examples, read with this configuration. If they are invalid, no model is created, so a wrong
        width is not saved. template: as in `begin`.
        """
        rehearse(configuration, request, self.settings)
        try:
            await self.begin(name, configuration, template)
        except Conflict:
            with suppress(NotFound):  # another first request, with x of another form, arrived earlier
                return self.get(name)
            raise
        return self.get(name)

    async def delete(self, name: str) -> None:
        """Delete a model, its log and its snapshots. Give up the model's computations."""
        roster = self.opened()
        roster.check_compiled(name)
        async with self._alone(name):
            why = f"model {name} was deleted"
            if roster.waiting.pop(name, None) is not None:
                roster.broken[name] = CUT_OFF
            if name in roster.loads:
                roster.broken[name] = CUT_OFF
                await roster.loads.cut_off(name, why)
            if name not in roster.broken:
                self.get(name)
                model = roster.running.pop(name)
                roster.broken[name] = CUT_OFF
                model.give_up(why)
                await model.worker.stop(keep_snapshot=False)
            self.positions.end(name)
            with suppress(NoModel):  # an earlier deletion, whose outcome was unknown, has succeeded
                await self._run(self.store.delete, name)
            roster.broken.pop(name, None)

    def take(self, name: str) -> asyncio.Task[None] | None:
        """Load a model that another server wrote until now; return None if it is loaded or being loaded."""
        roster = self.roster
        roster.came(name)
        if not roster.lacks(name):
            return None
        roster.loads.add(name, self.lane())
        task = roster.loads.run(name, self._load_beside(name))
        roster.loads.begin()
        return task

    async def leave(self, name: str, *, within_s: float | None) -> None:
        """Hand a model over to another server, which is or will be its writer. The model stays in the store.

        within_s: seconds to do the queued work and save a snapshot; None if this server can no longer write the model.
        """
        async with self._alone(name):
            why = f"model {name} goes to another server"
            roster = self.roster
            roster.left(name)
            if name in roster.loads:
                await roster.loads.cut_off(name, why)
            roster.broken.pop(name, None)
            roster.waiting.pop(name, None)
            model = roster.running.pop(name, None)
            if model is None:
                return
            self.positions.end(name)
            ending = asyncio.create_task(model.worker.stop(keep_snapshot=within_s is not None, why=why))
            await asyncio.wait([ending], timeout=within_s or 0)
            if not ending.done():
                model.give_up(why)
            with suppress(GivenUp, StoreUnavailable):
                await ending

    async def export(self, name: str, as_of: int | None, *, log: bool = False) -> tuple[int, bytes | Iterator[bytes]]:
        """Export a model; return the position of the exported state and the file.

        as_of: the position to export; None for the newest. log: with the log, in pieces. Raise the errors of
        `exported`.
        """
        if log and as_of is not None:
            raise Invalid(f"a log is exported with the newest state, got as_of={as_of}")
        worker = self.get(name)
        history = ModelHistory(self.store, name, **self.settings.model_sizes)
        position, state = await exported(worker, history, as_of, self.beside)
        if log:
            return position, log_export(worker, position, state, self.settings.model_sizes)
        return position, await self._run(pack_export, name, position, state, lane=self._beside)

    async def import_file(self, name: str, file: IO[bytes]) -> Worker:
        """Create a model from a file. Raise Invalid if this server does not accept the file, Conflict if the name is
        taken.
        """
        roster = self.opened()
        check_name(name)
        async with self._alone(name):
            if not roster.lacks(name):
                raise Conflict(f"there is a model {name!r} already")
            with roster.room(name):
                importing = self._run(creation.import_file, self.store, name, file, self.settings, lane=self._beside)
                return self._serve(await importing)

    async def beside(self, function: Callable[..., T], *args: Any) -> T:
        """Run a long computation once a slot for a retraining is free; return its result."""
        async with self._shared.places:
            found: T = await self._run(function, *args, lane=self._beside)
        return found

    # -- loading --------------------------------------------------------------------------------------------------

    async def _load_beside(self, name: str) -> None:
        """Load one model once it may begin. An error does not stop the other loads."""
        roster = self.roster
        async with roster.loads.turn(name) as lane:
            try:
                found = await self._loaded(name, lane)
                if name in roster.loads:
                    self._serve(*found)
            except NoFeatures as error:
                if name in roster.loads:
                    roster.waiting[name] = error.template
            except (GivenUp, warm.Ended):  # the model is being deleted, or the server stops
                pass
            except asyncio.CancelledError:
                lane.give_up("the server stops")
                raise
            except BaseException as error:  # one bad model must not block the other models
                log.exception("model %s could not be loaded", name)
                if name in roster.loads:
                    roster.broken[name] = str(error) or type(error).__name__
            finally:
                roster.coming.pop(name, None)

    async def _loaded(self, name: str, lane: Lane) -> tuple[Model, Obstacle | None]:
        """Load a model. If the store is unavailable, or there is no memory, wait."""
        patience = Patience(name)
        while True:
            try:
                found: tuple[Model, Obstacle | None] = await self._run(
                    creation.load, self.store, name, self.settings, lane=lane
                )
            except NoModel:  # waiting would not help
                raise
            except PASSING as error:
                await asyncio.sleep(patience.after(error))
            else:
                return found

    def _serve(self, model: Model, obstacle: Obstacle | None = None) -> Worker:
        lane = Lane(self._threads, self.turns)
        jobs, readers = self.lane(), Lane(self._threads, self.turns, lane.account)
        moved = self.positions.begin(model.name, model.position)
        worker = Worker(
            model,
            self.store,
            self.settings,
            lane,
            self._shared,
            obstacle,
            beside=jobs,
            readers=readers,
            moved=moved,
            turn=partial(self._gates.turn, lane.account),
        )
        self.roster.serve(model.name, Running(worker, lane, jobs))
        return worker

    def lane(self) -> Lane:
        """Return another executor, with an account of its own."""
        return Lane(self._threads, self.turns)

    # -- helpers --------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """Allow one creation, import or deletion of a name at a time. Other names do not wait."""
        lock = self._changing.get(name)
        if lock is None:
            lock = self._changing[name] = asyncio.Lock()
        async with lock:
            yield

    async def _run(self, function: Any, *args: Any, lane: Lane | None = None) -> Any:
        return await asyncio.get_running_loop().run_in_executor(lane or self._own, function, *args)


def _same(name: str, there: Configuration, wanted: Configuration) -> Configuration:
    """Return the configuration of an existing model. Raise Conflict if it differs from the wanted configuration."""
    if not there.same_as(found_again(wanted, there)):
        raise another_configuration(name, shown_configuration(there))
    return there
