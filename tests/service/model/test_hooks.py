"""Hooks are a fold: a loop over the history gives the marks that wait, and a snapshot keeps them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.frames import BadFrame, decode, encode
from hinged.service import limits
from hinged.service.model.curves import CurveMark
from hinged.service.model.events.hooks import HookAdded, HookRemoved, MarksDelivered
from hinged.service.model.events.states import EventSetAside, ModelImported, ModelRolledBack
from hinged.service.model.hooks import Hooks
from hinged.service.model.model import Model
from hinged.service.model.state import SNAPSHOT
from tests.helpers import models

SIZES = {"cache_bytes": 2**20, "answers_kept": 10}
IDS = [f"{number:032x}" for number in range(3)]
KINDS = ["set_aside", "drift", "alarm"]
STEPS = st.one_of(
    st.tuples(st.just("mark"), st.sampled_from(KINDS)),
    st.tuples(st.just("add"), st.sampled_from(IDS), st.lists(st.sampled_from(KINDS), min_size=1, unique=True)),
    st.tuples(st.just("remove"), st.sampled_from(IDS)),
    st.tuples(st.just("deliver"), st.sampled_from(IDS), st.integers(0, 40)),
)


def new_model():
    body = {"solver": "lasvm", "kernel": {"type": "linear"}, "features": {"type": "dense", "dim": 1}}
    return models.new_model(body, SIZES)


def restored(model):
    return Model.restore("m", model.snapshot(), **SIZES)


def add(model, hook, events, url="https://a.example/"):
    model.apply(model.position + 1, HookAdded(hook, url, events, model.position))


def mark(model, kind="set_aside"):
    """Apply an event with a mark of this kind."""
    if kind == "set_aside":
        model.apply(model.position + 1, EventSetAside(0, "", "", 0))
    else:
        model.apply(model.position + 1, HookRemoved("none", 0))
        model.mark(kind)


def waiting(model, hook):
    return [(mark.position, mark.kind) for mark in model.hooks.waiting(model.hooks.find(hook))]


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=40), restore_at=st.integers(0, 40))
def test_the_marks_that_wait_are_those_that_a_loop_over_the_history_finds(steps, restore_at):
    model, oracle = new_model(), {}
    for number, step in enumerate(steps):
        match step:
            case "mark", kind:
                mark(model, kind)
                for events, left in oracle.values():
                    left.extend([(model.position, kind)] if kind in events else [])
            case "add", hook, events if hook not in oracle:
                add(model, hook, events)
                oracle[hook] = (events, [])
            case "remove", hook:
                model.apply(model.position + 1, HookRemoved(hook, 0))
                oracle.pop(hook, None)
            case "deliver", hook, position:
                position = min(position, model.position)
                model.apply(model.position + 1, MarksDelivered({hook: position}, 0))
                if hook in oracle:
                    oracle[hook][1][:] = [left for left in oracle[hook][1] if left[0] > position]
        if number == restore_at:
            before = model.snapshot()
            model = restored(model)
            assert model.snapshot() == before
    assert [hook.id for hook in model.hooks.every] == list(oracle)
    for hook, (_, left) in oracle.items():
        assert waiting(model, hook) == left
    wanted = sorted({found for _, left in oracle.values() for found in left})
    assert sorted((mark.position, mark.kind) for mark in model.hooks.marks) == wanted


def test_a_model_without_hooks_has_no_trace_of_them_in_its_snapshot():
    model = new_model()
    mark(model)
    never = model.snapshot()
    assert "hooks" not in decode(never, SNAPSHOT)[0]
    assert ModelRolledBack(1, 5).encode() == encode("rolled_back", {"to": 1, "at_ms": 5}, {})


def test_at_most_so_many_marks_wait_and_the_oldest_are_dropped(monkeypatch):
    monkeypatch.setattr(limits, "MARKS_KEPT", 3)
    model = new_model()
    add(model, IDS[0], ["set_aside"])
    for _ in range(5):
        mark(model)
    assert [position for position, _ in waiting(model, IDS[0])] == [5, 6, 7]


def test_a_rollback_keeps_the_hooks_and_what_waits_and_brings_back_no_removed_hook():
    model = new_model()
    add(model, IDS[0], ["set_aside", "rolled_back"])
    former = restored(model)
    model.apply(model.position + 1, HookRemoved(IDS[0], 0))
    add(model, IDS[1], ["set_aside", "rolled_back"])
    mark(model)
    event = ModelRolledBack.decoded(ModelRolledBack(2, 9, model.hooks.state()).encode())
    former.come_back(6, event)
    assert [hook.id for hook in former.hooks.every] == [IDS[1]]
    assert waiting(former, IDS[1]) == [(5, "set_aside"), (6, "rolled_back")]
    assert restored(former).hooks == former.hooks


def test_an_imported_model_has_the_hooks_but_not_the_marks_of_the_other_log():
    model = new_model()
    add(model, IDS[0], ["set_aside"])
    mark(model)
    other = Model.begin("n", 1, ModelImported(model.snapshot(), 0), **SIZES)
    assert [(hook.id, hook.url, hook.reached) for hook in other.hooks.every] == [(IDS[0], "https://a.example/", 1)]
    assert waiting(other, IDS[0]) == []
    mark(other)
    assert waiting(other, IDS[0]) == [(2, "set_aside")]


HOOK = [IDS[0], "https://a.example/", ["drift"], 0, 1]


@pytest.mark.parametrize(
    "facts",
    [
        {"every": [HOOK, HOOK], "marks": []},
        {"every": [[f"{k:032x}", *HOOK[1:]] for k in range(limits.HOOKS_MAX + 1)], "marks": []},
        {"every": [["short", *HOOK[1:]]], "marks": []},
        {"every": [[IDS[0], "", ["drift"], 0, 1]], "marks": []},
        {"every": [[IDS[0], "https://a.example/", ["unknown"], 0, 1]], "marks": []},
        {"every": [[IDS[0], "https://a.example/", ["drift"], 0, 9]], "marks": []},
        {"every": [HOOK], "marks": [["drift", 9, 0, 0]]},
        {"every": [HOOK], "marks": [["unknown", 1, 0, 0]]},
        {"every": [HOOK], "marks": [["drift", 1, 0, 0]] * (limits.MARKS_KEPT + 1)},
        {"every": [HOOK]},
    ],
)
def test_a_snapshot_with_impossible_hooks_is_refused(facts):
    state, arrays = decode(new_model().snapshot(), SNAPSHOT)
    with pytest.raises((BadFrame, ValueError)):
        Model.restore("m", encode(SNAPSHOT, {**state, "hooks": facts}, arrays), **SIZES)


def test_hooks_never_change_in_place():
    hooks = Hooks()
    model = new_model()
    add(model, IDS[0], ["drift"])
    one = model.hooks
    two = one.noted(CurveMark("drift", 9, 0, 0))
    assert (len(hooks.every), len(one.marks), len(two.marks)) == (0, 0, 1)
    assert one.noted(CurveMark("alarm", 9, 0, 0)) is one
