"""The alerts of a model, against a plain list, and their state."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.service import limits
from hinged.service.model.decisions.alerts import Alert, Alerts

IDS = st.sampled_from("abcdef")


def alert(given, gain=1.0):
    return Alert(given, "fraud", gain, 0.5, None, "cost", 7)


STEPS = st.sampled_from(["added", "without", "acknowledged", "reopened"])


@given(steps=st.lists(st.tuples(STEPS, st.lists(IDS, max_size=4, unique=True)), max_size=20))
def test_alerts_are_a_list_whose_newest_come_last_and_closed_alerts_are_reopened_in_their_place(steps):
    alerts, plain, closed, before, raised = Alerts(), [], {}, [], 0
    for step, ids in steps:
        before.append((alerts, alerts.state()))
        if step == "acknowledged":
            closed |= dict(each for each in plain if each[0] in ids)
        if step == "reopened":
            again = [(given, closed.pop(given)) for given in ids if given in closed]
            plain = sorted([*plain, *again], key=lambda each: each[1])
        else:
            plain = [each for each in plain if each[0] not in ids]
        if step in ("added", "without"):
            closed = {given: number for given, number in closed.items() if given not in ids}
        if step == "added":
            plain += [(given, raised + k) for k, given in enumerate(ids, 1)]
            raised += len(ids)
        alerts = getattr(alerts, step)([alert(given) for given in ids] if step == "added" else ids)
        assert [(each.id, each.number) for each in alerts.waiting.values()] == plain
        assert {each.id: each.number for each in alerts.closed.values()} == closed
        again = Alerts.of(json.loads(json.dumps(alerts.state())))
        assert again == alerts
    assert alerts.raised == raised
    assert all(each.state() == state for each, state in before)  # no change happens in place


def test_only_the_newest_wait():
    alerts = Alerts().added([alert(str(k)) for k in range(limits.ALERTS_KEPT + 5)])
    assert list(alerts.waiting) == [str(k) for k in range(5, limits.ALERTS_KEPT + 5)]
    assert Alerts.of(alerts.state()) == alerts
    alerts = alerts.acknowledged([*alerts.waiting])
    assert len(alerts.closed) == limits.ALERTS_REOPENED
    assert Alerts.of(alerts.state()) == alerts


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts["waiting"].reverse(),
        lambda facts: facts["waiting"].append(facts["waiting"][0]),
        lambda facts: facts.update(raised=1),
        lambda facts: facts["waiting"][0].__setitem__(2, float("nan")),
        lambda facts: facts["waiting"][0].__setitem__(7, 0),
        lambda facts: facts["closed"].append(facts["waiting"][0]),
        lambda facts: facts["closed"][0].__setitem__(7, 4),
    ],
)
def test_a_damaged_state_is_refused(change):
    facts = Alerts().added([alert("a"), alert("b"), alert("c")]).acknowledged(["c"]).state()
    change(facts)
    with pytest.raises(ValueError, match="alerts may wait"):
        Alerts.of(facts)
