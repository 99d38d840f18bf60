"""First answers: an example with an id is learned once, and a repetition gets the same answer as the first time.

They are kept for the newest examples only, in arrays used as a ring, so that memory is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hinged.frames import BadFrame
from hinged.service.data.examples import SERVER_ID
from hinged.solvers.core.solver import CLASSES_MAX
from hinged.solvers.core.states import StateReader

if TYPE_CHECKING:  # it imports this module
    from hinged.service.model.events.learning import ExamplesLearned

Array = np.ndarray[Any, Any]

RING_MIN = 1024  # entries of the first ring; larger rings double, so fewer only cost more copies
FORGOTTEN = -1


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """The answer when the example was learned. label and prediction are class numbers; prediction may be UNKNOWN."""

    content: bytes
    label: int
    prediction: int
    score: float


class FirstAnswers:
    """First answers of the examples oldest..newest, at most `kept` of them."""

    def __init__(self, kept: int) -> None:
        self.kept = kept
        self.newest = 0
        self._from = 1  # a server that kept fewer forgot the older answers
        self._ids: list[str | None] = []
        self._by_id: dict[str, int] = {}
        self._contents = np.zeros((0, 16), np.uint8)
        self._labels = np.zeros(0, np.int32)
        self._predictions = np.zeros(0, np.int32)
        self._scores = np.zeros(0)

    @property
    def oldest(self) -> int:
        """Number of the oldest example whose answer is kept."""
        return max(self._from, self.newest - self.kept + 1)

    def add(self, event: ExamplesLearned, predictions: Array, scores: Array) -> list[tuple[int, str]]:
        """Keep the answers of a batch. Forget the oldest beyond `kept`, and return their numbers and clients' ids."""
        m = len(event.ids)
        self._grow(min(self.kept, self.newest + m))
        size = len(self._ids)
        forgotten: list[tuple[int, str]] = []
        begin = event.first % size
        if begin + m <= size and not any(self._ids[begin : begin + m]):  # the usual case: no entry is replaced
            self._ids[begin : begin + m] = event.ids
            self._by_id.update((given, number) for number, given in enumerate(event.ids, event.first) if given)
        else:
            forgotten = self._replace(event.first, event.ids)
        tail = min(m, size)  # the end of a batch that is longer than the ring
        whole = begin + m <= size
        places = slice(begin, begin + m) if whole else (event.first + np.arange(m - tail, m)) % size
        self._contents[places] = np.frombuffer(b"".join(event.contents[m - tail :]), np.uint8).reshape(-1, 16)
        self._labels[places] = event.classes[m - tail :]
        self._predictions[places] = predictions[m - tail :]
        self._scores[places] = scores[m - tail :]
        self.newest += m
        return forgotten

    def _replace(self, first: int, given_ids: Sequence[str | None]) -> list[tuple[int, str]]:
        """Write ids into the ring one after another; return numbers and ids of the entries that they replace."""
        size, forgotten = len(self._ids), []
        for number, given in enumerate(given_ids, first):
            place = number % size
            former = self._ids[place]
            if former is not None:
                forgotten.append((number - size, former))
                if self._by_id.get(former) == number - size:
                    del self._by_id[former]
            self._ids[place] = given
            if given is not None:
                self._by_id[given] = number
        return forgotten

    def find(self, given: str) -> FirstAnswer | None:
        """Return the first answer of an id, None if it is unknown or no longer kept."""
        number = self.number_of(given)
        return None if number is None else self.first(number)

    def first(self, number: int) -> FirstAnswer | None:
        """Return the first answer of an example by number, None if it was forgotten or is no longer kept."""
        if not self.oldest <= number <= self.newest:
            return None
        place = number % len(self._ids)
        if self._labels[place] == FORGOTTEN:
            return None
        return FirstAnswer(
            self._contents[place].tobytes(),
            int(self._labels[place]),
            int(self._predictions[place]),
            float(self._scores[place]),
        )

    def label_of(self, number: int) -> int | None:
        """Return the class number of an example as learned or corrected; None if it is no longer kept."""
        if not self.oldest <= number <= self.newest:
            return None
        label = int(self._labels[number % len(self._ids)])
        return None if label == FORGOTTEN else label

    def id_of(self, number: int) -> str | None:
        """Return the id that a client gave an example by number, None if there was no id, or it is no longer kept."""
        return self._ids[number % len(self._ids)] if self.oldest <= number <= self.newest else None

    @property
    def given_ids(self) -> tuple[str, ...]:
        """The ids that clients gave to examples whose answers are kept."""
        return tuple(self._by_id)

    def number_of(self, given: str) -> int | None:
        """Return the number of the example with this id; an id that the server gave may be older than those kept."""
        if given.startswith(SERVER_ID):
            digits = given[len(SERVER_ID) :]
            number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 0
            if not 1 <= number <= self.newest:
                return None
            # An example with an id of its own cannot also be found by its number.
            kept = number >= self.oldest
            return None if kept and self._ids[number % len(self._ids)] is not None else number
        return self._by_id.get(given)

    def know_any(self, given: AbstractSet[str]) -> bool:
        """Return whether a client gave one of these ids to an example whose answer is kept."""
        return not self._by_id.keys().isdisjoint(given)

    def forget(self, number: int) -> None:
        """Forget everything about an example except that it existed."""
        if not self.oldest <= number <= self.newest:
            return
        place = number % len(self._ids)
        given = self._ids[place]
        if given is not None and self._by_id.get(given) == number:
            del self._by_id[given]
        self._ids[place] = None
        self._contents[place] = 0
        self._labels[place], self._predictions[place], self._scores[place] = FORGOTTEN, FORGOTTEN, 0.0

    def pass_over(self, through: int) -> list[tuple[int, str]]:
        """Note that the examples up to this number were never learned, and so have no answers. Returns the same as
        `add`.
        """
        forgotten: list[tuple[int, str]] = []
        while self.newest < through:  # one ring's length at a time
            m = min(through - self.newest, self.kept)
            first = self.newest + 1
            self._grow(min(self.kept, self.newest + m))
            forgotten += self._replace(first, [None] * m)
            places = np.arange(first, first + m) % len(self._ids)
            self._contents[places], self._scores[places] = 0, 0.0
            self._labels[places], self._predictions[places] = FORGOTTEN, FORGOTTEN
            self.newest += m
        return forgotten

    def correct(self, number: int, label: int, content: bytes) -> None:
        """Note another label of an example; its prediction stays."""
        if self.oldest <= number <= self.newest:
            place = number % len(self._ids)
            self._labels[place], self._contents[place] = label, np.frombuffer(content, np.uint8)

    def _grow(self, needed: int) -> None:
        size = len(self._ids)
        if needed <= size:
            return
        # The ring's index is `number % size`, so a larger ring has other places.
        larger = min(self.kept, max(needed, 2 * size, RING_MIN))
        numbers = np.arange(max(1, self.newest - size + 1), self.newest + 1)
        old, new = numbers % max(size, 1), numbers % larger
        ids: list[str | None] = [None] * larger
        for a, b in zip(old.tolist(), new.tolist(), strict=True):
            ids[b] = self._ids[a]
        self._ids = ids
        for name, empty in (
            ("_contents", np.zeros((larger, 16), np.uint8)),
            ("_labels", np.zeros(larger, np.int32)),
            ("_predictions", np.zeros(larger, np.int32)),
            ("_scores", np.zeros(larger)),
        ):
            if numbers.size:
                empty[new] = getattr(self, name)[old]
            setattr(self, name, empty)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the answers as facts and arrays, in the order of the examples."""
        size, m = len(self._ids), self.newest + 1 - self.oldest
        begin = self.oldest % max(size, 1)
        tail, head = slice(begin, begin + m), slice(0, max(0, begin + m - size))
        names = ("contents", "labels", "predictions", "scores")
        rings = {name: getattr(self, f"_{name}") for name in names}
        return (
            {"newest": self.newest, "ids": self._ids[tail] + self._ids[head]},
            {name: np.concatenate((ring[tail], ring[head])) for name, ring in rings.items()},
        )

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over a result of `state`."""
        newest, n, read = int(facts["newest"]), len(facts["ids"]), StateReader(arrays)
        if n > newest:
            raise BadFrame(f"there must be at most {newest} first answers, one per example, got {n}")
        clients = [own for own in facts["ids"] if own is not None]
        if len(set(clients)) < len(clients):
            raise BadFrame("an id is listed twice")
        contents = read.take("contents", np.uint8, (n, 16))
        labels = read.take("labels", np.int32, (n,), FORGOTTEN, CLASSES_MAX - 1)
        predictions = read.take("predictions", np.int32, (n,), -1, CLASSES_MAX - 1)
        scores = read.take("scores", np.float64, (n,))
        ids: list[str | None] = facts["ids"][-self.kept :]
        self._ids, self._by_id = [], {}
        self._from = newest - len(ids) + 1
        self.newest = 0
        self._grow(min(self.kept, max(len(ids), 1)))
        self.newest = newest
        places = np.arange(self._from, newest + 1) % len(self._ids)
        for place, given, number in zip(places, ids, range(self._from, newest + 1), strict=True):
            self._ids[place] = given
            if given is not None:
                self._by_id[given] = number
        if ids:
            self._contents[places] = contents[-len(ids) :]
            self._labels[places] = labels[-len(ids) :]
            self._predictions[places] = predictions[-len(ids) :]
            self._scores[places] = scores[-len(ids) :]
