"""Run a scenario: three nodes, their Redis, clients, a follower and faults, in one process on simulated time."""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from unittest import mock

from hinged.client.client import AsyncClient
from hinged.client.exchange import HingedError, exchange
from hinged.client.routes import Routes
from hinged.service.cluster.controller import Controller
from hinged.service.engine.history import ModelHistory
from hinged.service.engine.journal import Journal
from hinged.service.engine.positions import LogPosition
from hinged.service.peers.replica import Replicas
from hinged.service.store.redis import RedisStore
from hinged.service.store.redis import nodes as redis_nodes
from tests.seeds.checks import Checks
from tests.seeds.network import Network, Sender
from tests.seeds.nodes import Node, settings_of
from tests.seeds.redis_client import NAME, RedisServer, clients
from tests.seeds.scenario import LASTS_S, MODELS, NODES
from tests.seeds.world import PLACE, START_S, Place, World

CONFIGURATION = {
    "features": {"type": "dense", "dim": 2}, "kernel": {"type": "rbf", "gamma": 1.0}, "solver": "lasvm", "C": 1.0,
}  # fmt: skip
TIMEOUT_S = 2.0
TRIES_MAX = 3
RETRIED = {None, 307, 429, 502, 503, 504}  # statuses after which a client begins a call again
TRY_S = 10.0  # time after which a client gives up a call, and begins it again at another node
ALIVE_S = 60.0  # time after the last fault in which everything must be done
HEALED_S, QUIET_S = (
    3.0,
    5.0,
)  # time after the last fault can begin until everything is healed, and until the end is read


class Near(AsyncClient):
    """A client on the simulated network."""

    def __init__(self, loop, url):
        Routes.__init__(self, url, None, TIMEOUT_S, TRIES_MAX)
        self._http = Sender(loop, TIMEOUT_S)


class Away(Near):
    """A client that lets the servers pass its requests on."""

    def _exchange(self, call):
        return exchange(self.url, call, self.tries_max, None)


class Run:
    """One run of a scenario. `broken` of its checks lists what was found."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.world = World(scenario.seed)
        self.network = Network(self.world)
        self.checks = Checks()
        self.redis = RedisServer(self.world, self.network, self.checks.ran)
        self.checks.clock = self.world.loop.time
        self.nodes = {name: Node(self.world, self.network, name) for name in NODES}
        self.world.ended = self._ended
        self._shadows = {}
        self._begun = {}

    def result(self):
        """Run it; return the checks."""
        apply, checks = Journal._apply, self.checks
        reached, followed = ModelHistory.reached, ModelHistory.followed

        def watched(journal, *args):
            outcome = apply(journal, *args)
            checks.published[journal.model.name] = journal.model.position
            checks.reached(PLACE.get(), journal.model)
            return outcome

        def watched_replica(history, *args):
            model = followed(history, *args)
            checks.reached(PLACE.get(), model)
            return model

        def watched_load(history):
            found = reached(history)
            checks.reached(PLACE.get(), found[0])
            return found

        told = Told(checks)
        logging.getLogger().addHandler(told)
        try:
            with (
                mock.patch.object(redis_nodes, "Redis", clients(self.redis)),
                mock.patch.object(Journal, "_apply", watched),
                mock.patch.object(ModelHistory, "reached", watched_load),
                mock.patch.object(ModelHistory, "followed", watched_replica),
            ):
                self.world.run(self._main())
        finally:
            logging.getLogger().removeHandler(told)
        for what in self.world.unforeseen:
            checks.say(f"unforeseen: {what}")
        return checks

    def facts(self):
        """Return figures of the run."""
        checks = self.checks
        return {
            "seconds_simulated": self.world.loop.now - START_S,
            "faults": len(self.scenario.faults),
            "acknowledged": sum(map(len, checks.acknowledged.values())),
            "forgotten": sum(map(len, checks.forgotten.values())),
            "states_compared": checks.compared,
            "claims": checks.claims,
        }

    def digest(self):
        """Return a digest of the schedule: of everything that Redis has executed, and when."""
        return self.checks.schedule.hexdigest()

    async def _main(self):
        loop = self.world.loop
        for node in self.nodes.values():
            node.start()
        await self._task("c0", self._create())
        quiet_at = loop.now + LASTS_S + QUIET_S
        follower = self._task("follower", self._follow())
        self._task("faults", self._disturb())
        working = [
            self._task(name, self._work(name, [o for o in self.scenario.operations if o.client == name]))
            for name in dict.fromkeys(o.client for o in self.scenario.operations)
        ]
        try:
            async with asyncio.timeout(LASTS_S + ALIVE_S):
                await asyncio.gather(*working)
                await asyncio.sleep(max(0.0, quiet_at - loop.now))
                await self._task("c0", self._settled())
        except TimeoutError:
            self.checks.say(f"not live: at {loop.now:.1f} clients still wait for {sorted(self._begun.items())}")
            return
        follower.cancel()
        await self._task("judge", self._judge())

    def _task(self, name, work):
        return self.world.loop.create_task(work, context=Place(name).context)

    # -- faults ---------------------------------------------------------------------------------------------------

    def _ended(self, place):
        node = self.nodes[place.name]
        if node.place is place:
            self.world.loop.call_soon(node.stop, context=self.world.nowhere.context)

    async def _disturb(self):
        loop = self.world.loop
        begun = loop.now
        for fault in self.scenario.faults:
            await asyncio.sleep(max(0.0, begun + fault.at_s - loop.now))
            self._cause(fault)
        await asyncio.sleep(max(0.0, begun + LASTS_S + HEALED_S - loop.now))
        self._heal()

    def _heal(self):
        self.network.heal()
        self.redis.up = True
        for node in self.nodes.values():
            node.go_on()
            node.start()

    def _cause(self, fault):
        node, loop = self.nodes[fault.who], self.world.loop
        other = {"cut_redis": NAME, "cut_client": "c0", "slow": NAME}.get(fault.kind, fault.other)
        if fault.kind == "kill":
            node.kill()
            loop.call_later(fault.lasts_s, node.start)
        elif fault.kind == "stop":
            node.stop()
        elif fault.kind == "pause":
            node.pause()
            loop.call_later(fault.lasts_s, node.go_on)
        elif fault.kind == "crash_redis":
            self.redis.crash()
            self.checks.crashed()
            loop.call_later(fault.lasts_s, setattr, self.redis, "up", True)
        elif fault.kind == "jump":
            node.jump((fault.lasts_s - 1.0) * 1000.0)
        else:
            ways = self.network.slow if fault.kind == "slow" else self.network.cuts
            if fault.way != "from":
                ways.add((fault.who, other))
            if fault.way != "to":
                ways.add((other, fault.who))
            loop.call_later(fault.lasts_s, self._over, ways, fault.who, other)

    def _over(self, ways, one, other):
        ways.discard((one, other))
        ways.discard((other, one))
        self.network.let_through()

    # -- clients --------------------------------------------------------------------------------------------------

    def client(self, name, node):
        """Return a client of a node."""
        return (Away if name == "c1" else Near)(self.world.loop, self.nodes[node].address)

    async def _create(self):
        client = self.client("c0", "n0")
        await client.wait_until_ready(ALIVE_S)
        for name in MODELS:
            await client.create_model(name, **CONFIGURATION)

    async def _work(self, name, operations):
        at = {node: self.client(name, node) for node in NODES}
        for number, operation in enumerate(operations):
            await asyncio.sleep(operation.pause_s)
            self._begun[name] = operation.kind
            await getattr(self, f"_{operation.kind}")(at, operation, f"{name}-{number}")
            del self._begun[name]

    async def _until(self, at, call, done=()):
        """Call until a node answers; return the answer, or None after a refusal.

        done: statuses of a refusal because an earlier try, whose answer was lost, or another client made the change.
        """
        while True:
            client = at[self.world.rng.choice(NODES)]
            try:
                async with asyncio.timeout(TRY_S):
                    answer = call(client)
                    return await answer if isinstance(answer, Awaitable) else answer
            except TimeoutError:
                continue
            except HingedError as error:
                if error.status in RETRIED:
                    continue
                if error.status not in done:
                    self.checks.say(f"a client got {error.status} {error.message}")
                return None

    async def _learn(self, at, operation, name):
        model, rng = operation.model, self.world.rng
        examples = [
            {"id": f"{name}-{k}", "x": [rng.gauss(0, 1), rng.gauss(0, 1)], "y": rng.random() < 0.5}
            for k in range(operation.size)
        ]
        ids = {example["id"] for example in examples}
        self.checks.sent[model] |= ids
        answer = await self._until(at, lambda client: client.learn(model, examples))
        if answer is not None:
            self.checks.acknowledged[model] |= ids
            self.checks.answered(operation.client, model, "learn", answer["position"])

    async def _predict(self, at, operation, _):
        x = [self.world.rng.gauss(0, 1), 0.5]
        answer = await self._until(at, lambda client: client.predict(operation.model, [{"x": x}]))
        if answer is not None:
            self.checks.answered(operation.client, operation.model, "predict", answer["position"])

    def _own(self, operation):
        """Return an acknowledged example of this client that nobody has forgotten."""
        checks, model = self.checks, operation.model
        known = checks.acknowledged[model] - checks.perhaps_forgotten[model]
        known = sorted(given for given in known if given.startswith(operation.client))
        return self.world.rng.choice(known) if known else None

    async def _forget(self, at, operation, _):
        given, checks, model = self._own(operation), self.checks, operation.model
        if given is not None:
            checks.perhaps_forgotten[model].add(given)
            answer = await self._until(at, lambda client: client.forget(model, given), done=(404, 410))
            if answer is not None:
                checks.forgotten[model].add(given)

    async def _correct(self, at, operation, _):
        given = self._own(operation)
        if given is not None:
            await self._until(at, lambda client: client.correct(operation.model, given, True), done=(404, 410))

    async def _challenge(self, at, operation, name):
        answer = await self._until(at, lambda client: client.challenge(operation.model, name, C=2.0), done=(409,))
        if answer is not None:
            self._shadows[operation.model] = name

    async def _promote(self, at, operation, _):
        shadow = self._shadows.pop(operation.model, None)
        if shadow is not None:
            await self._until(at, lambda client: client.promote(operation.model, shadow), done=(404, 409))

    async def _move(self, at, operation, _):
        to = self.nodes[self.world.rng.choice(NODES)].address
        with suppress(HingedError, TimeoutError):  # the node may not live, and the move may be cut off
            async with asyncio.timeout(TRY_S):
                await at[self.world.rng.choice(NODES)].move(operation.model, to=to)

    async def _balance(self, at, _, __):
        shown = await self._until(at, lambda client: client.cluster())
        for move in Controller(lambda: True, lambda: shown, lambda *_: None).decide().left if shown else ():
            with suppress(HingedError, TimeoutError):
                async with asyncio.timeout(TRY_S):
                    await at[NODES[0]].move(move.model, to=move.target)

    async def _snapshot(self, at, operation, _):
        await self._until(at, lambda client: client.snapshot(operation.model))

    async def _settled(self):
        """Wait until each model answers, and no job runs."""
        at = {node: self.client("c0", node) for node in NODES}
        for name in MODELS:
            while True:
                self._begun["c0"] = f"the end of the jobs of {name}"
                shown = await self._until(at, lambda client, name=name: client.model(name))
                if shown is None or not shown.get("jobs"):
                    break
                await asyncio.sleep(0.3)

    # -- followers and the judge ----------------------------------------------------------------------------------

    async def _follow(self):
        """Follow the models as another process does, from the positions that owners have published."""
        store = await asyncio.to_thread(self._reader)
        replicas = Replicas(store, settings_of(self.nodes["n0"].address), None)
        while True:
            await asyncio.sleep(self.world.rng.expovariate(5.0))
            for name, position in self.checks.published.items():
                replicas.note(name, LogPosition(1, position))

    async def _judge(self):
        await asyncio.to_thread(lambda: self.checks.judge(self._reader(), self.redis.model, MODELS))

    def _reader(self):
        return RedisStore("redis://redis", reading=True)


class Told(logging.Handler):
    """Finds tracebacks in the log."""

    def __init__(self, checks):
        super().__init__(logging.ERROR)
        self._checks = checks

    def emit(self, record):
        if record.exc_info:
            self._checks.say(f"logged: {record.getMessage()}: {record.exc_info[1]!r}")
