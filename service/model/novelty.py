"""Novelty: a sample of the x that a model has seen, labelled or not, with which further x are compared.

Seen are the x that were learned, offered, or predicted with an id; each counts once while its id waits or is in the
sample. The x number i is drawn if a hash of i, from 0 to 1, is below SAMPLE / min(i, HORIZON). So the sample spreads
over the newest HORIZON x, and a stream of any speed costs the same for each x. Draws do not depend on what x is, so new
x of the same source are exchangeable with the sample, and their p-values are exact (solvers/scores/novelty.py).

With an alarm in the configuration, the alarm about inputs gets the same x in the same order (promises/inputs.py).

The sample is compared in the form of the newest comparison, `rows`: comparing with other rows after each draw would
cost more than the prediction. `Novelty` never changes in place, so drafts and published states share it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hinged.frames import part, prefixed
from hinged.service.data.features.reader import Reading
from hinged.service.data.inputs import Inputs, inputs_state, join_inputs, read_inputs
from hinged.service.model.promises.inputs import InputAlarm
from hinged.service.model.promises.martingale import uniform
from hinged.solvers.core.rows import Rows
from hinged.solvers.scores.novelty import Sample

Array = np.ndarray[Any, Any]
INPUT_ALARM = "input_alarm"  # kind of the event and the mark of an alarm about inputs
SAMPLE = 512
"""Maximum number of x in the sample. The least p-value is 1 / (SAMPLE + 1); a comparison takes time in proportion."""
HORIZON = 32 * SAMPLE
FIRST = 20  # number of x in the sample from which on there are p-values
FLAGGED = 1_000  # number of x for which an alarm is shown; not part of the state
RENEWED = 8  # the rows are renewed when one in eight of the sample is new
# All but FLAGGED are part of the state: if one is changed, old logs lead to other states.


@dataclass(frozen=True, eq=False)
class Novelty:
    """seen: number of x seen. ids, xs: the sample, oldest first. fresh: number of x drawn since `rows` were made.

    rows: the sample at that time, with the columns of that time. compared: the same for comparisons. alarm: about
    inputs; None without one.

    A `reading` (Reading) turns x into rows with the present columns; None before the warm-up has found columns.
    """

    seen: int = 0
    fresh: int = 0
    ids: tuple[str, ...] = ()
    xs: tuple[Inputs, ...] = ()
    rows: Rows | None = None
    compared: Sample | None = None
    alarm: InputAlarm | None = None

    def watched(self, configured: Mapping[Any, float] | None) -> Novelty:
        """Return the novelty with the alarm of a configuration. An alarm of the same level stays as it is."""
        if configured is None or self.alarm is None or self.alarm.alarm.configured != configured:
            return replace(self, alarm=None if configured is None else InputAlarm.new(configured))
        return self

    @cached_property
    def _held(self) -> frozenset[str]:
        return frozenset(self.ids)

    @property
    def named(self) -> frozenset[str]:
        """Return the ids of all x that are held."""
        return self._held if self.alarm is None else self._held.union(self.alarm.ids)

    def saw(self, ids: Sequence[str], x_of: Callable[[int], Inputs], reading: Reading | None) -> Novelty:
        """Return the novelty after x that came for the first time, in order. x_of: returns the x of an index."""
        seen, drawn, fixed = self.seen, dict[str, int](), () if self.alarm is None else self.alarm.ids
        new: dict[int, int] = {}  # for the alarm: number of the x by its index
        for r, given in enumerate(ids):
            if given not in self._held and given not in drawn:
                seen += 1
                if given not in fixed:
                    new[r] = seen
                if uniform(seen) * min(seen, HORIZON) < SAMPLE:
                    drawn[given] = r
        found = self if seen == self.seen else self._drew(seen, drawn, x_of)
        if self.alarm is not None and reading is not None and new:
            inputs, numbers = join_inputs([x_of(r) for r in new]), list(new.values())
            found = replace(found, alarm=self.alarm.saw([ids[r] for r in new], inputs, numbers, reading))
        waits = found.rows is None and reading is not None and len(found.ids) >= FIRST
        return found.renewed(reading) if waits or RENEWED * found.fresh >= max(1, len(found.ids)) else found

    def _drew(self, seen: int, drawn: dict[str, int], x_of: Callable[[int], Inputs]) -> Novelty:
        places = list(drawn.values())[-SAMPLE:]
        return replace(
            self,
            seen=seen,
            fresh=min(SAMPLE, self.fresh + len(drawn)),
            ids=(*self.ids, *drawn)[-SAMPLE:],
            xs=(*self.xs, *map(x_of, places))[-SAMPLE:],
        )

    def for_learner(self, reading: Reading | None) -> Novelty:
        """Return the novelty for a learner whose columns may differ."""
        return replace(self, alarm=None if self.alarm is None else self.alarm.begun_again()).renewed(reading)

    def renewed(self, reading: Reading | None) -> Novelty:
        """Return the novelty that compares with the present sample."""
        if reading is None or len(self.ids) < FIRST:
            return replace(self, rows=None, compared=None)
        rows = reading(join_inputs(self.xs))
        return replace(self, fresh=0, rows=rows, compared=Sample(rows))

    def without(self, forgotten: Collection[str], reading: Reading | None) -> Novelty:
        """Return the novelty without the x of these ids, as if they had not been drawn."""
        kept = [r for r, given in enumerate(self.ids) if given not in forgotten]
        found = self if len(kept) == len(self.ids) else self._of(kept, self.xs).renewed(reading)
        return found if self.alarm is None else replace(found, alarm=self.alarm.without(forgotten))

    def changed(self, fit: Callable[[Inputs], Inputs], reading: Reading | None) -> Novelty:
        """Return the novelty for other columns. fit: turns x into the form of the new configuration. x that do not fit
        leave the sample.
        """
        xs: list[Inputs] = []
        kept: list[int] = []
        for r, x in enumerate(self.xs):
            try:
                xs.append(fit(x))
            except ValueError:
                xs.append(x)
            else:
                kept.append(r)
        return self._of(kept, xs).renewed(reading)

    def _of(self, kept: Sequence[int], xs: Sequence[Inputs]) -> Novelty:
        return replace(
            self,
            fresh=min(self.fresh, len(kept)),
            ids=tuple(self.ids[r] for r in kept),
            xs=tuple(xs[r] for r in kept),
        )

    @property
    def alarmed(self) -> bool:
        """Return whether there was an alarm among the newest 1,000 x."""
        return self.alarm is not None and self.alarm.alarm.last_at > max(0, self.seen - FLAGGED)

    def figures(self) -> dict[str, Any]:
        """Return the number of x seen, and the number of x with which further x are compared, and the alarm."""
        alarm = {} if self.alarm is None else {"alarm": {**self.alarm.figures(), "flagged": self.alarmed}}
        return {"seen": self.seen, "compared": 0 if self.compared is None else self.compared.size, **alarm}

    def check(self, dim: int, dtype: type) -> None:
        """Raise ValueError for rows of another width or precision than the model's."""
        for rows in (self.rows, None if self.alarm is None else self.alarm.rows):
            if rows is not None and (rows.dim != dim or rows.values.dtype != dtype):
                raise ValueError(f"x are compared with rows of {dim} {np.dtype(dtype)}, got {rows.dim}")

    def memory_bytes(self) -> int:
        """Return the memory of the comparison, of the sample in two forms, and of the alarm, in bytes."""
        own = 0 if self.alarm is None else self.alarm.memory_bytes()
        if self.rows is None or self.compared is None:
            return own
        return own + self.compared.memory_bytes() + 2 * (self.rows.values.nbytes + self.rows.indices.nbytes)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""
        facts: dict[str, Any] = {"seen": self.seen, "fresh": self.fresh, "ids": list(self.ids)}
        arrays: dict[str, Array] = {}
        for name, inputs in (("xs", join_inputs(self.xs) if self.xs else None), ("rows", self.rows)):
            if inputs is not None:
                facts[name], own = inputs_state(inputs)
                arrays |= prefixed(f"{name}.", own)
        if self.alarm is not None:
            facts["alarm"], own = self.alarm.state()
            arrays |= prefixed("alarm.", own)
        return facts, arrays

    def loaded(self, facts: dict[str, Any], arrays: dict[str, Array]) -> Novelty:
        """Return the novelty of a result of `state`. Raise ValueError if the parts do not fit each other, or this
        novelty.
        """

        def inputs(name: str) -> Inputs | None:
            return read_inputs(facts[name], part(arrays, f"{name}.")) if name in facts else None

        if (self.alarm is None) != ("alarm" not in facts):
            raise ValueError("the alarm about inputs differs from the configuration")
        alarm = None if self.alarm is None else self.alarm.loaded(facts["alarm"], part(arrays, "alarm."))
        ids, xs, rows = tuple(facts["ids"]), inputs("xs"), inputs("rows")
        size = 0 if xs is None else len(xs)
        if not len(set(ids)) == len(ids) == size <= min(SAMPLE, facts["seen"]) or facts["fresh"] > size:
            raise ValueError(f"a sample of {size} x, {facts['fresh']} of them fresh, does not fit {len(ids)} ids")
        if rows is not None and not (isinstance(rows, Rows) and FIRST <= len(rows) <= SAMPLE):
            raise ValueError(f"x are compared with {FIRST} to {SAMPLE} rows, got {len(rows)}")
        each = () if xs is None else tuple(xs.row(r) for r in range(size))
        compared = None if rows is None else Sample(rows)
        return Novelty(facts["seen"], facts["fresh"], ids, each, rows, compared, alarm)
