"""Requirements on every kind of event: a kind that does not implement everything is refused at import."""

import re
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import pytest

from hinged.service.model.events import KINDS, _kinds
from hinged.service.model.events.base import NOTHING, Facts, ModelEvent, NamesNoExample
from tests.helpers.server import ROOT

QUESTIONS = sorted(ModelEvent.__abstractmethods__)


def module_of(*kinds):
    found = ModuleType("of_tests")
    for number, kind in enumerate(kinds):
        kind.__module__ = found.__name__
        setattr(found, f"event{number}", kind)
    return found


def whole(kind):
    """Return an event class that implements everything."""

    @dataclass(frozen=True, slots=True)
    class Whole(Facts, NamesNoExample):
        KIND: ClassVar[str] = kind
        at_ms: int

        def admit(self, coming):
            pass

        def apply(self, *_):
            return NOTHING

        def told(self):
            return {}

    return Whole


def test_a_complete_event_is_known_by_its_kind():
    (kind,) = _kinds(module_of(whole("tested"))).values()
    assert kind.KIND == "tested"
    assert kind.decoded(kind(7).encode()) == kind(7)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_incomplete_event_is_refused_at_import(question):
    partial = {name: vars(whole("tested")).get(name, lambda self: None) for name in QUESTIONS if name != question}
    kind = type("Partial", (ModelEvent,), {"KIND": "tested", **partial})
    with pytest.raises(TypeError, match=f"Partial must declare: {question}"):
        _kinds(module_of(kind))


def test_two_events_of_one_kind_are_refused_at_import():
    with pytest.raises(TypeError, match="are both of kind 'tested'"):
        _kinds(module_of(whole("tested"), whole("tested")))


def test_the_fields_that_followers_get_are_documented_for_each_kind():
    table = (ROOT / "docs/reference/streams.md").read_text().partition("| kind | facts")[2].partition("\n\n")[0]
    found = {kind for row in table.splitlines()[2:] for kind in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert found - {"drift", "alarm", "input_alarm", "snapshot"} == KINDS.keys()
