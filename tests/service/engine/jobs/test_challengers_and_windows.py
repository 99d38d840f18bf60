"""Challengers that learn at the same time as a model, and models that forget old examples."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.commands.change import Challenge, Configure, Forget, Promote, Retire
from hinged.service.commands.figures import challengers
from hinged.service.data.parts import LIVES
from hinged.service.errors import Conflict, NotFound
from hinged.service.settings import Settings
from hinged.solvers.dual.machine import widths
from tests.helpers.changes import changed, same_solver, taught, while_folding
from tests.helpers.states import digest_of, load_model
from tests.helpers.worker import SIZES, examples_of, learning, on_worker, predictions_of, until, with_worker


@on_worker()
async def test_a_challenger_that_is_retired_during_its_retraining_stays_retired(worker):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    await changed(worker, Challenge("other", {"C": 3}, Settings()))
    await while_folding(worker, Forget("s1-1"), Retire("other"))
    assert not worker.model.shadows
    await worker.learn(learning(worker.model, examples_of(2, 5)))


@on_worker()
async def test_a_challenger_that_has_stopped_is_not_compared_with_later_predictions(worker):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    await changed(worker, Challenge("small", {"points_max": 30, "when_full": "refuse"}, Settings()))
    assert challengers(worker.model)["shadows"]["small"]["compared"]["examples"] == 19
    await worker.learn(learning(worker.model, examples_of(2, 200)))
    small = challengers(worker.model)["shadows"]["small"]
    assert small["stopped"]
    assert small["compared"] is None


def flipped(n, at, seed=0):
    """Return a stream whose concept is inverted after `at` examples."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, 2))
    return [(None, x.tolist(), "ab"[int((x[0] > 0) ^ (k >= at))]) for k, x in enumerate(X)]


def after_a_change(**configuration):
    """Return the share of correct predictions some time after a concept has changed, and the worker's model."""
    stream = flipped(1350, 1000)

    async def scenario(worker, _):
        for k in range(0, 1150, 20):
            await worker.learn(learning(worker.model, stream[k : k + 20]))
        late = stream[1150:]
        said = predictions_of(worker.model.published(), learning(worker.model, late).inputs)
        return np.mean([label == y for (label, _), (_, _, y) in zip(said, late, strict=True)]), worker.model

    return with_worker(scenario, configuration={"kernel": {"type": "rbf", "gamma": 0.5}, **configuration})


@pytest.mark.long
@pytest.mark.parametrize("solver", ["lasvm", "bsca", "exact"])
def test_a_model_with_a_window_recovers_from_a_change_sooner_than_one_without(solver):
    base = {"solver": solver, "C": 0.1 if solver == "lasvm" else 1}
    plain, _ = after_a_change(**base)
    windowed, _ = after_a_change(**base, window={"examples": 150})
    assert windowed > 0.9
    assert windowed > plain + 0.1


@pytest.mark.parametrize("solver", ["lasvm", "lasvm-nc", "tracking-1"])
def test_a_model_with_a_half_life_recovers_too(solver):
    right, model = after_a_change(solver=solver, C=1, half_life={"examples": 60})
    assert right > 0.9
    assert model.solver.keys().min() > model.learned - 5 * 60 - 5


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.integers(1, 90), min_size=1, max_size=12),
    st.integers(1, 400),
    st.sampled_from(["window", "half_life"]),
    st.sampled_from(["lasvm", "lasvm-g", "tracking-2"]),
    st.sampled_from([1, 0.3, 1.0, None, "unsaid"]),
)
def test_a_window_gives_the_same_model_however_the_stream_is_cut(cuts, size, part, solver, step):
    stream, size = flipped(300, 150), size if part == "window" else 10 + size // 5
    oldest = size if part == "window" else LIVES * size
    if isinstance(step, float):
        step = math.ceil(step * size)
    span = {"examples": size} if step == "unsaid" else {"examples": size, "step": step}
    # Models of older versions have no step. Then the window moves by a hundredth of its length.
    late = {None: oldest // 100, "unsaid": size // (20 if part == "window" else 16)}.get(step, step)

    async def scenario(worker, _, cuts):
        begin = 0
        for cut in [*cuts, 300]:
            part = stream[begin : begin + cut]
            if part:
                await worker.learn(learning(worker.model, part))
            begin += cut
        keys = worker.model.solver.keys()
        assert keys.min() > worker.model.learned - oldest - max(1, late)
        return digest_of(worker.model)

    def run(cuts):
        async def one(worker, store):
            return await scenario(worker, store, cuts)

        return with_worker(one, configuration={"solver": solver, part: span})

    assert run(cuts) == run([1] * 50)


@on_worker(configuration={"window": {"seconds": 0.5}})
async def test_examples_older_than_the_window_leave(worker, store):
    await worker.learn(learning(worker.model, examples_of(1, 9)))
    later = worker.journal.now_ms() + 600
    worker.journal.now_ms = lambda: later
    await worker.learn(learning(worker.model, examples_of(2, 9)))
    assert worker.model.solver.keys().min() > 9
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


@on_worker(configuration={"half_life": {"seconds": 1.0}})
async def test_with_a_half_life_in_seconds_examples_fade_and_then_leave(worker, store):
    for k in range(8):
        await worker.learn(learning(worker.model, examples_of(k, 9)))
        later = worker.journal.now_ms() + 1000
        worker.journal.now_ms = lambda later=later: later
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
    machine, n = worker.model.solver.machine, worker.model.solver.slots
    live = machine.class_of[:n] >= 0
    seconds = 7 - (machine.key[:n][live] - 1) // 9
    assert 4 <= seconds.max() <= 5
    np.testing.assert_allclose(widths(machine, n)[live], worker.model.solver.C * 0.5**seconds, rtol=0.05)


@pytest.mark.parametrize("solver", ["lasvm", "lasvm-g", "tracking-cached"])
def test_a_further_epoch_does_not_bring_faded_examples_back(solver):
    def boxes(model):
        machine, n = model.solver.machine, model.solver.slots
        found = zip(machine.key[:n].tolist(), widths(machine, n), machine.class_of[:n], strict=True)
        return {key: width for key, width, number in found if number >= 0}

    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples_of(1, 300)))
        before = boxes(worker.model)
        await worker.finish(2)
        assert boxes(worker.model).items() <= before.items()

    with_worker(scenario, configuration={"solver": solver, "half_life": {"examples": 50}} | LEAVING[solver])


LEAVING = {"lasvm": {"idle_max": 20}, "lasvm-g": {"idle_max": 20, "clean_every": 10}, "tracking-cached": {}}


@on_worker(configuration={"half_life": {"examples": 640, "step": 10}})
async def test_forgetting_between_two_steps_does_not_keep_other_examples_from_fading(worker):
    examples = [(f"e{number}", x, y) for number, (_, x, y) in enumerate(examples_of(1, 45), 1)]
    await worker.learn(learning(worker.model, examples))
    for number in (9, 19, 29):  # at each of these steps the weights of the other examples fade
        await changed(worker, Forget(f"e{number}"))
    machine, n = worker.model.solver.machine, worker.model.solver.slots
    live = machine.class_of[:n] >= 0
    steps = 4 - (machine.key[:n][live] + 1) // 10 + ((machine.key[:n][live] + 1) % 10 == 0)
    np.testing.assert_allclose(widths(machine, n)[live], worker.model.solver.C * 0.5 ** (steps * 10 / 640), rtol=0.001)


@on_worker()
async def test_a_challenger_learns_the_whole_log_is_scored_and_can_be_promoted(worker, store):
    examples = examples_of(17, 300)
    await worker.learn(learning(worker.model, examples[:30]))
    await changed(worker, Challenge("other", {"C": 0.5}, Settings()))
    await worker.learn(learning(worker.model, examples[30:45]))
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
    shadow = worker.model.shadows["other"]
    fresh = taught(worker.model, examples[:45], C=0.5)
    same_solver(shadow.solver, fresh.solver)
    assert shadow.metrics.figures() == fresh.metrics.figures()
    await changed(worker, Promote("other"))
    assert worker.model.configuration.C == 0.5
    assert not worker.model.shadows
    await worker.learn(learning(worker.model, examples[45:]))
    same_solver(worker.model.solver, taught(worker.model, examples).solver)
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
    with pytest.raises(NotFound):
        await worker.command(Promote("other"))


@on_worker()
async def test_a_promotion_keeps_what_the_model_was_told_beside_its_solver(worker, store):
    await worker.learn(learning(worker.model, examples_of(17, 300)))
    await changed(worker, Challenge("other", {"C": 0.5}, Settings()))
    await changed(worker, Challenge("own", {"C": 2, "alarm": {"level": 0.2}}, Settings()))
    told = Configure({"alarm": {"level": 0.001}, "labels": {"overlap": 2}}, Settings())
    await while_folding(worker, Challenge("late", {"C": 3}, Settings()), told)
    await until(lambda: not worker.model.jobs.running())
    for name, level in (("other", 0.001), ("own", 0.2), ("late", 0.001)):
        configuration = worker.model.shadows[name].configuration
        assert (configuration.alarm["level"], configuration.labels.overlap) == (level, 2)
        assert worker.model.shadows[name].metrics.alarm.level == level
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
    await changed(worker, Promote("late"))
    assert (worker.model.configuration.C, worker.model.configuration.alarm["level"]) == (3, 0.001)
    await changed(worker, Challenge("stepping", {"solver": "bsca", "budget": 10, "extra_steps": 1}, Settings()))
    await changed(worker, Configure({"alarm": None}, Settings()))
    await changed(worker, Configure({"costs": {"a": {"b": 9}}}, Settings()))
    await changed(worker, Configure({"explore": {"b": 0.1}}, Settings()))
    stepping = worker.model.shadows["stepping"].configuration
    assert stepping.costs == worker.model.configuration.costs
    assert stepping.explore is None
    assert worker.model.shadows["other"].configuration.explore == {"b": 0.1}
    assert worker.model.shadows["other"].configuration.alarm is None
    assert worker.model.shadows["own"].configuration.alarm["level"] == 0.2


@on_worker()
async def test_a_challenger_forgets_like_the_model_and_a_full_challenger_stops_alone(worker):
    examples = examples_of(19, 80)
    await worker.learn(learning(worker.model, examples[:30]))
    await changed(worker, Challenge("other", {"kernel": {"gamma": 0.2}}, Settings()))
    await changed(worker, Challenge("small", {"points_max": 40}, Settings()))
    await changed(worker, Forget("@1"))
    kernel = {"type": "rbf", "gamma": 0.2}
    without = taught(worker.model, examples[:30], set(range(2, 31)), kernel=kernel)
    same_solver(worker.model.shadows["other"].solver, without.solver)
    await worker.command(Challenge("tiny", {"points_max": 31}, Settings()))
    await worker.learn(learning(worker.model, examples[30:]))
    await worker.command(Retire("small"))
    with pytest.raises(Conflict):
        await worker.command(Challenge("other", {"C": 3}, Settings()))
    assert list(worker.model.shadows) in (["other"], ["other", "tiny"])
