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


@given(steps=st.lists(st.tuples(st.booleans(), st.lists(IDS, max_size=4, unique=True)), max_size=20))
def test_alerts_are_a_list_whose_newest_come_last(steps):
    alerts, plain, before = Alerts(), [], []
    for adds, ids in steps:
        before.append((alerts, alerts.state()))
        plain = [given for given in plain if given not in ids] + (ids if adds else [])
        alerts = alerts.added([alert(given) for given in ids]) if adds else alerts.without(ids)
        assert list(alerts.waiting) == plain
        again = Alerts.of(json.loads(json.dumps(alerts.state())))
        assert again == alerts
    assert alerts.raised == sum(len(ids) for adds, ids in steps if adds)
    assert all(each.state() == state for each, state in before)  # no change happens in place


def test_only_the_newest_wait():
    alerts = Alerts().added([alert(str(k)) for k in range(limits.ALERTS_KEPT + 5)])
    assert list(alerts.waiting) == [str(k) for k in range(5, limits.ALERTS_KEPT + 5)]
    assert Alerts.of(alerts.state()) == alerts


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts["waiting"].reverse(),
        lambda facts: facts["waiting"].append(facts["waiting"][0]),
        lambda facts: facts.update(raised=1),
        lambda facts: facts["waiting"][0].__setitem__(2, float("nan")),
        lambda facts: facts["waiting"][0].__setitem__(7, 0),
    ],
)
def test_a_damaged_state_is_refused(change):
    facts = Alerts().added([alert("a"), alert("b")]).state()
    change(facts)
    with pytest.raises(ValueError, match="alerts may wait"):
        Alerts.of(facts)
