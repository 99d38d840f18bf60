"""The ring of first answers, compared with a plain dict that forgets nothing."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hinged.service.model.answers import RING_MIN, FirstAnswer, FirstAnswers
from hinged.service.model.events.learning import ExamplesLearned


def content_of(number):
    return number.to_bytes(16, "little")


def batch(first, ids):
    """Examples from number `first` on with these ids (or None); everything about an example follows from its number."""
    numbers = range(first, first + len(ids))
    classes = np.array([n % 5 for n in numbers], np.int32)
    event = ExamplesLearned(first, list(ids), classes, None, [content_of(n) for n in numbers], 0)
    return event, np.array([n % 7 - 1 for n in numbers], np.int32), np.array([n / 3 for n in numbers])


def answer_of(number):
    return FirstAnswer(content_of(number), number % 5, number % 7 - 1, number / 3)


@dataclass
class Plain:
    """Return the answer that the ring should have."""

    kept: int
    ids: list = field(default_factory=list)

    known_from: int = 1

    @property
    def oldest(self):
        return max(self.known_from, len(self.ids) - self.kept + 1)

    def find(self, given):
        for number in range(len(self.ids), self.oldest - 1, -1):
            own = self.ids[number - 1]
            if (own if own is not None else f"@{number}") == given:
                return answer_of(number)
        return None


class RingIsADict(RuleBasedStateMachine):
    @initialize(kept=st.integers(1, 12) | st.integers(RING_MIN - 2, RING_MIN + 40))
    def begin(self, kept):
        self.ring, self.plain = FirstAnswers(kept), Plain(kept)

    def learn(self, ids):
        first = len(self.plain.ids) + 1
        known = [number for number in range(self.ring.oldest, first) if self.plain.ids[number - 1] is not None]
        forgotten = self.ring.add(*batch(first, ids))
        self.plain.ids += ids
        gone = [(number, self.plain.ids[number - 1]) for number in known if number < self.ring.oldest]
        assert [pair for pair in forgotten if pair[0] < first] == gone
        assert all(self.ring.id_of(n) == self.plain.ids[n - 1] for n in range(self.ring.oldest, len(self.plain.ids)))

    @rule(size=st.integers(1, 30), step=st.integers(1, 4))
    def learn_a_few(self, size, step):
        first = len(self.plain.ids) + 1
        self.learn([f"e{n}" if n % step == 0 else None for n in range(first, first + size)])

    @rule(size=st.integers(900, 2300))
    def learn_many(self, size):
        first = len(self.plain.ids) + 1
        self.learn([f"e{n}" if n % 5 else None for n in range(first, first + size)])

    @rule(kept=st.none() | st.integers(1, 12) | st.integers(RING_MIN - 2, 3 * RING_MIN))
    def restart(self, kept):
        """Restart on a server that keeps as many, more, or fewer; dropped answers stay dropped."""
        facts, arrays = self.ring.state()
        self.plain.known_from = self.plain.oldest
        self.plain.kept = kept or self.plain.kept
        self.plain.known_from = self.plain.oldest
        self.ring = FirstAnswers(self.plain.kept)
        self.ring.load(facts, arrays)

    @invariant()
    def the_newest_the_oldest_and_the_forgotten_are_as_in_the_dict(self):
        newest, kept = len(self.plain.ids), self.plain.kept
        assert self.ring.newest == newest
        assert self.ring.oldest == self.plain.oldest
        assert len(self.ring._by_id) <= kept  # memory is bounded too
        oldest = self.plain.oldest
        near = {1, 2, newest // 2, newest - 1, newest, newest + 1, oldest - 1, oldest, oldest + 1, newest - kept}
        for number in near:
            for given_id in (f"e{number}", f"@{number}"):
                assert self.ring.find(given_id) == self.plain.find(given_id), given_id


TestRingIsADict = RingIsADict.TestCase
TestRingIsADict.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


def test_ids_from_the_server_stay_known_but_their_answers_do_not():
    ring = FirstAnswers(2)
    ring.add(*batch(1, [None, "own", None, None]))
    assert ring.find("@1") is None
    assert ring.number_of("@1") == 1
    assert ring.find("@3") == answer_of(3)
    assert ring.find("@4") == answer_of(4)
    assert ring.number_of("@5") is None


@pytest.mark.parametrize(
    "given_id", ["@", "@0", "@-1", "@1.0", "@²", "@x", "@9999999999999999999999", "@ 1", "1", "@@1"]
)
def test_an_invalid_id_from_the_server_is_unknown(given_id):
    ring = FirstAnswers(5)
    ring.add(*batch(1, [None, None]))
    assert ring.find(given_id) is None


def test_an_example_with_an_id_of_its_own_is_not_known_by_its_number():
    ring = FirstAnswers(5)
    ring.add(*batch(1, ["own", None]))
    assert ring.find("@1") is None
    assert ring.find("own") == answer_of(1)
    assert ring.find("@2") == answer_of(2)


def test_know_any_says_whether_any_of_several_ids_is_known():
    ring = FirstAnswers(2)
    ring.add(*batch(1, ["gone", "own", None]))
    assert ring.know_any({"new", "own"})
    assert not ring.know_any({"new", "gone"})
    assert not ring.know_any(set())
