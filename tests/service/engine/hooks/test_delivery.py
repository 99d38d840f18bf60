"""Random histories with hooks, rollbacks, retraining and forgetting fold to the same bits, from a log and from
snapshots.
"""

import asyncio
import random

import pytest

from hinged.service import limits
from hinged.service.commands.change import Configure, Forget
from hinged.service.commands.hooks import AddHook, RecordDelivered, RemoveHook
from hinged.service.engine.history import ModelHistory
from hinged.service.engine.hooks.delivery import Deliveries
from hinged.service.errors import Conflict
from hinged.service.model.curves import CurveMark
from hinged.service.model.hooks import Hook, Hooks
from hinged.service.settings import Settings
from tests.helpers.server import PATIENCE_S
from tests.helpers.worker import SIZES, examples_of, learning, on_worker, until

SECRET = "a secret of the operator, which is long"  # noqa: S105
KINDS = ["reconfigured", "rolled_back", "finished", "swapped"]


@pytest.mark.parametrize("seed", range(4))
@on_worker()
async def test_a_history_with_hooks_folds_to_the_same_bits(worker, store, seed):
    rng = random.Random(seed)
    settings = Settings()
    for number in range(40):
        hooks = [hook.id for hook in worker.model.hooks.every]
        try:
            match rng.choice(
                ["add", "add", "remove", "deliver", "deliver", "mark", "mark", "mark", "learn", "back", "keep"]
            ):
                case "add":
                    await worker.command(AddHook("https://a.example/", rng.sample(KINDS, rng.randint(1, 4))))
                case "remove" if hooks:
                    await worker.command(RemoveHook(rng.choice(hooks)))
                case "deliver" if hooks:
                    await worker.command(RecordDelivered({rng.choice(hooks): rng.randint(1, worker.model.position)}))
                case "mark":
                    await worker.command(Configure({"labels": {"pool_max": 10 + number}}, settings))
                case "learn":
                    await worker.learn(learning(worker.model, examples_of(number, 3)))
                case "back":
                    await worker.roll_back(rng.randint(1, worker.model.position))
                case "keep":
                    await worker.snapshot()
        except Conflict:  # a rollback has undone the position, or there are enough hooks
            continue
    await worker.learn(learning(worker.model, [("gone", [1.0, 0.5], "a")]))
    await worker.change(Forget("gone"))
    await until(lambda: not worker.model.jobs.running())
    bits = await worker.read(lambda model: model.snapshot())
    assert ModelHistory(store, "m", **SIZES).newest().snapshot() == bits
    found = await worker.read(lambda model: model.hooks)
    assert found == Hooks.of(found.state())


class Owner:
    """The parts of a worker that deliveries use: a model with hooks, and commands that record."""

    name = "m"
    stopped = False

    def __init__(self, hooks):
        self.model, self.recorded = self, []
        self.hooks = hooks

    async def command(self, command):
        self.recorded.append(dict(command.reached))
        self.hooks = self.hooks.accepted(command.reached)
        return {}


async def test_marks_of_one_position_and_of_several_arrive_in_order_and_positions_are_recorded_together(monkeypatch):
    """Marks that come while a call is in progress do not change the order."""
    monkeypatch.setattr(limits, "HOOK_RECORD_S", PATIENCE_S)
    marks = [CurveMark(kind, at, 0, 0) for at, kind in [(3, "drift"), (3, "alarm"), (4, "drift"), (9, "alarm")]]
    one, two = Hook("1", "u", ("drift", "alarm"), 0, 1), Hook("2", "u", ("alarm",), 0, 1)
    owner = Owner(Hooks((one, two), tuple(marks[:2])))
    deliveries = Deliveries(owner, Settings(hooks_secret=SECRET))
    sent, go_on = [], asyncio.Event()

    async def send(_, hook, mark):
        sent.append((hook.id, mark.position, mark.kind))
        await go_on.wait()

    deliveries.calls.send = send
    deliveries.look()
    await until(lambda: len(sent) == 2)
    for mark in marks[2:]:
        owner.hooks = owner.hooks.noted(mark)
        deliveries.look()
    go_on.set()
    await until(lambda: len(sent) == 6)
    assert [(at, kind) for hook, at, kind in sent if hook == "1"] == [
        (3, "drift"),
        (3, "alarm"),
        (4, "drift"),
        (9, "alarm"),
    ]
    assert [(at, kind) for hook, at, kind in sent if hook == "2"] == [(3, "alarm"), (9, "alarm")]
    await deliveries.stop(record=True)
    assert owner.recorded == [{"1": 9, "2": 9}]
    assert owner.hooks.marks == ()


async def test_a_stopped_owner_sends_and_records_nothing():
    owner = Owner(Hooks((Hook("1", "u", ("drift",), 0, 1),), (CurveMark("drift", 3, 0, 0),)))
    owner.stopped = True
    deliveries = Deliveries(owner, Settings(hooks_secret=SECRET))
    deliveries.look()
    await deliveries.stop(record=True)
    assert owner.recorded == []
