"""Take decisions that a model may take only so often, for the contenders of one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hinged.service.commands.ask import Offer, Planned, hashed
from hinged.service.data.costs import ASK
from hinged.service.errors import Conflict, Gone
from hinged.service.model.decisions.alerts import Alert
from hinged.service.model.decisions.costs import ASKED
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.decisions import AlertsRaised, DecisionsRationed, Rationed
from hinged.service.model.model import Model

Array = np.ndarray[Any, Any]

COST, NO_CHANCES, CAPACITY = "cost", "unknown", "capacity"
"""Reasons: the decision has the lowest expected cost, there are no probabilities yet, or a better decision was not
left.
"""
NOTHING_LEFT = -2
"""The number that stands for no decision: each possible decision is limited, and none is left."""


def gains_of(costs: Array, decisions: Array, limited: Sequence[int]) -> Array:
    """Return what the decisions (m,) save beside the best other decision that is not limited. costs (m, classes + 1):
    see Ration.
    """
    rows, others = np.arange(decisions.size), costs.copy()
    others[rows, decisions] = np.inf
    gains = np.maximum(np.delete(others, limited, axis=1).min(axis=1, initial=np.inf) - costs[rows, decisions], 0.0)
    return np.where(np.isinf(gains), 0.0, gains)  # nothing is known about the costs


@dataclass(frozen=True, slots=True)
class Ration(Offer):
    """The contenders of a request: the best decision of each may be limited. Contenders that a person should see become
    candidates.

    names: the classes, by number. best (m,): the best decisions; ASKED for a question. costs (m, classes + 1): the
    expected cost of each decision, the last of a question; inf for an impossible decision. chances (m, classes): the
    probabilities; None while they are unknown. forced (m,): whether another rule demands the question, even if none is
    left.
    """

    names: Sequence[str] = ()
    best: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    costs: Array = field(default_factory=lambda: np.zeros((0, 1)))
    forced: Array = field(default_factory=lambda: np.zeros(0, bool))
    chances: Array | None = None

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Take the best decision of each contender if it is left, otherwise the next best. The answer contains the
        number of each decision: ASKED for a question, NOTHING_LEFT for none.

        An alert that waits, a question in the pool, and an example whose label was learned are not counted again.
        Raise Conflict if an id occurs with different x.
        """
        for given in model.tombstones.known(self.ids):
            place = self._place(self.ids.index(given))
            raise Gone(f"examples[{place}]: the example with id {given!r} was forgotten", index=place, id=given)
        first: dict[str, bytes] = {}
        for index, (given, digest) in enumerate(zip(self.ids, self.digests, strict=True)):
            if first.setdefault(given, digest) != digest:
                place = self._place(index)
                raise Conflict(f"examples[{place}]: the request has {given!r} with another x", index=place, id=given)
        numbers, events = self._share(model, now_ms)
        asked = np.flatnonzero(numbers == ASKED)
        if asked.size:
            events += self._candidates(asked).plan(model, now_ms).events
        answer = {"decisions": numbers}
        return Planned(events, lambda _: answer)

    def _share(self, model: Model, now_ms: int) -> tuple[Array, list[ModelEvent]]:
        """Return the numbers of the decisions, and the events that count them and raise alerts."""
        rations, costs, ask = model.rations, self.costs.copy(), len(self.names)
        limited = [n for n, name in enumerate(self.names) if name in rations.of and name != ASK]
        limited += [ask] if ASK in rations.of else []
        numbers = np.where(self.best == ASKED, ask, self.best)
        first = {given: r for r, given in reversed(list(enumerate(self.ids)))}
        firsts = np.array([first[given] for given in self.ids])
        before = (firsts != np.arange(firsts.size)) | self._taken_before(model, numbers)
        settled, forced = self.forced | before, int((self.forced & ~before).sum())
        parts: list[Rationed] = []
        alerts: list[Alert] = []
        # Classes come before questions, because a contender that a class refuses may become a question. A question that
        # is refused may also turn to a class, so classes may come again.
        while True:
            number = next((n for n in limited if ((numbers == n) & ~settled).any() or (n == ask and forced)), None)
            if number is None:
                break
            name, rows = ASK if number == ask else self.names[number], np.flatnonzero((numbers == number) & ~settled)
            gains = gains_of(costs[rows], np.full(rows.size, number), limited)
            demanded, forced = (forced, 0) if number == ask else (0, forced)
            taken = rations.of[name].choose(gains, self._draw_of(model, name, rows), demanded, now_ms)
            parts.append(Rationed(name, gains, taken, demanded))
            rations = rations.counted(*parts[-1], now_ms)
            settled[rows[taken]] = True
            if number != ask:
                found = zip(rows[taken].tolist(), gains[taken].tolist(), strict=True)
                alerts += [self._alert(r, number, gain, now_ms) for r, gain in found]
            refused = rows[~taken]
            costs[refused, number] = np.inf
            numbers[refused] = costs[refused].argmin(axis=1)
            settled[refused[np.isinf(costs[refused]).all(axis=1)]] = True
        nothing = np.isinf(costs[np.arange(numbers.size), numbers])
        numbers = np.where(nothing, NOTHING_LEFT, np.where(numbers == ask, ASKED, numbers))[firsts]
        events: list[ModelEvent] = [DecisionsRationed(parts, now_ms)] if parts else []
        return numbers, events + ([AlertsRaised(alerts, now_ms)] if alerts else [])

    def _draw_of(self, model: Model, name: str, rows: Array) -> Callable[[int], float]:
        """Return a function that draws a number from 0 to 1 for a row. The same id always gets the same number."""
        seed, ids, at = model.configuration.seed, self.ids, rows.tolist()
        return lambda r: hashed(seed, f"{name}@{ids[at[r]]}".encode()) / 2**64

    def _taken_before(self, model: Model, numbers: Array) -> Array:
        """Return which of the decisions (m,) were taken in an earlier request."""
        found = np.zeros(numbers.size, bool)
        for r, (given, number) in enumerate(zip(self.ids, numbers.tolist(), strict=True)):
            if number < len(self.names):
                alert = model.alerts.waiting.get(given)
                waits = alert is not None and alert.decision == self.names[number]
            else:
                waits = model.pool.find(given) is not None
            found[r] = waits or given in self.learned or model.answers.number_of(given) is not None
        return found

    def _alert(self, row: int, number: int, gain: float, now_ms: int) -> Alert:
        """Return the alert of a row that gets a limited decision for a class."""
        chance = None if self.chances is None else float(self.chances[row, number])
        cost = None if chance is None else float(self.costs[row, number])
        reason = CAPACITY if self.best[row] != number else NO_CHANCES if chance is None else COST
        return Alert(self.ids[row], self.names[number], gain, cost, chance, reason, now_ms)

    def _candidates(self, rows: Array) -> Offer:
        """Return the offer of some of the contenders."""
        at = rows.tolist()
        ids, digests = [self.ids[r] for r in at], [self.digests[r] for r in at]
        places = [self._place(r) for r in at]
        return Offer(ids, self.inputs.take(rows), digests, [None] * rows.size, learned=self.learned, places=places)
