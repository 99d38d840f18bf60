"""Random calls of every store, compared with the same calls of a dict."""

from __future__ import annotations

from functools import partial

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from hinged.service.store.base import Event, NoModel, PositionTaken
from tests.helpers.store_events import CREATED, log


class StoreAgainstDict(RuleBasedStateMachine):
    """A store behaves like a dict of lists."""

    reopen = None
    names = st.sampled_from(["a", "b", "B"])
    ids = st.lists(st.sampled_from(["", "1", "2", "é", "\0", "2\0"]), max_size=2)
    event = st.builds(Event, st.text(st.characters(codec="utf-8"), max_size=3), st.binary(max_size=5), ids.map(tuple))
    events = st.lists(event, max_size=4)

    def __init__(self):
        super().__init__()
        self.store = self.reopen()
        for name in self.store.models():
            self.store.delete(name)
        self.logs = {}
        self.index = {}
        self.snapshots = {}
        self.trimmed = {}

    def expect(self, known, call):
        if known:
            return call()
        with pytest.raises((KeyError, NoModel)):
            call()
        return None

    @rule(name=names, first=event)
    def create(self, name, first):
        self.expect(name not in self.logs, lambda: self.store.create(name, first))
        if name not in self.logs:
            self.logs[name], self.index[name] = [first], dict.fromkeys(first.ids, 1)
            self.snapshots[name], self.trimmed[name] = {}, 0

    @rule(name=names)
    def delete(self, name):
        self.expect(name in self.logs, lambda: self.store.delete(name))
        for kept in (self.logs, self.index, self.snapshots, self.trimmed):
            kept.pop(name, None)

    @rule(name=names, events=events, astray=st.sampled_from([0, 0, 0, 0, -1, 1, 6]))
    def append(self, name, events, astray):
        known = self.logs.get(name, [])
        after = len(known) + astray
        if known and astray:
            with pytest.raises(PositionTaken):
                self.store.append(name, after, events)
        else:
            end = self.expect(name in self.logs, lambda: self.store.append(name, after, events))
            if name in self.logs:
                self.index[name] |= {i: at for at, event in enumerate(events, after + 1) for i in event.ids}
            known += events
            assert end == (len(known) if name in self.logs else None)

    @rule(name=names, events=events, ids=st.sampled_from([(), ("1", "\ud800")]))
    def fail(self, name, events, ids):
        """Nothing is written if it cannot be written as a whole."""
        if end := len(self.logs.get(name, [])):
            with pytest.raises(UnicodeEncodeError):
                self.store.append(name, end, [*events, Event("" if ids else "\ud800", b"", ids)])
            with pytest.raises(UnicodeEncodeError):
                self.store.redact(name, end, {1: CREATED, end: Event("\ud800", b"")}, ["1"])

    @rule(name=names, position=st.integers(0, 5), state=st.binary(max_size=5))
    def put_snapshot(self, name, position, state):
        end = len(self.logs.get(name, []))
        if 0 < end < position:
            with pytest.raises(PositionTaken, match=f"the log of {name} ends at {end}, not at {position} or later"):
                self.store.put_snapshot(name, position, state)
            return
        self.expect(name in self.logs, lambda: self.store.put_snapshot(name, position, state))
        if name in self.logs:
            kept = {**self.snapshots[name], position: state}
            self.snapshots[name] = {at: kept[at] for at in sorted(kept)[-2:]}

    @rule(name=names, through=st.integers(-1, 12))
    def trim(self, name, through):
        self.expect(name in self.logs, lambda: self.store.trim(name, through))
        if name in self.logs:
            through = min(through, len(self.logs[name]))
            self.trimmed[name] = max(self.trimmed[name], through)
            self.snapshots[name] = {at: s for at, s in self.snapshots[name].items() if at >= through}

    @rule(name=names, through=st.integers(0, 12), places=st.sets(st.integers(-1, 12), max_size=3), ids=ids, new=event)
    def redact(self, name, through, places, ids, new):
        end = len(self.logs.get(name, []))
        call = partial(self.store.redact, name, through, dict.fromkeys(places, new), ids)
        if wrong := [at for at in places if not 1 <= at <= through]:
            with pytest.raises(ValueError, match=f"through {through} can be replaced, got an event") as refused:
                call()
            assert int(str(refused.value).rpartition(" ")[2]) in wrong
        elif name in self.logs and through > end:
            with pytest.raises(PositionTaken, match=f"the log of {name} ends at {end}, not at {through} or later"):
                call()
        else:
            self.expect(name in self.logs, call)
        if name in self.logs and all(1 <= at <= through for at in places) and through <= end:
            for at in places:
                self.logs[name][at - 1] = new
            for i in ids:
                if self.index[name].get(i, end + 1) <= through:
                    del self.index[name][i]
            self.snapshots[name] = {at: s for at, s in self.snapshots[name].items() if at >= through}

    @rule()
    def purge(self):
        assert self.store.purge() == []

    @rule()
    def close_and_open(self):
        self.store = self.reopen()

    @rule(name=names, after=st.integers(0, 12))
    def look(self, name, after):
        assert self.store.models() == sorted(self.logs)
        if name not in self.logs:
            for call in (self.store.end, self.store.snapshots, lambda name: self.store.find(name, ["1"])):
                with pytest.raises(NoModel):
                    call(name)
            return
        events = list(enumerate(self.logs[name], 1))
        assert self.store.end(name) == len(events)
        assert log(self.store, name, after) == [
            (at, event.kind, event.payload) for at, event in events if at > max(after, self.trimmed[name])
        ]
        ids = {i: at for i, at in self.index[name].items() if at > self.trimmed[name]}
        assert self.store.find(name, ["", "1", "2", "é", "\0", "2\0", "3"]) == ids
        assert self.store.find(name, []) == {}
        assert self.store.snapshots(name) == sorted(self.snapshots[name], reverse=True)
        for at, state in self.snapshots[name].items():
            assert self.store.get_snapshot(name, at) == state
        with pytest.raises(KeyError):
            self.store.get_snapshot(name, max(self.snapshots[name], default=0) + 1)


@pytest.mark.long
def test_any_sequence_of_calls_behaves_like_a_dict(reopen):
    machine = type("Machine", (StoreAgainstDict,), {"reopen": staticmethod(reopen)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
