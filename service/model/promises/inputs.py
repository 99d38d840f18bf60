"""The alarm about inputs: an alarm (alarm.py) on how unlike a fixed sample each x is. It needs no labels.

The first FROZEN x are the sample. A further x is compared with them, and each of them with the rest of the sample
(solvers/scores/novelty.py). The score of x is twice the number of points that are less strange than x, plus the number
of points that are equally strange. Neither the sample nor the columns in which x are read change, so the scores of
exchangeable x are exchangeable, and their p-values uniform. The bets are on both sides: x that all fall on one point
are nearer to the sample than usual.

After an alarm, the next x are the sample, so a change that stays causes one alarm. If an x of the sample is forgotten,
or the columns change, the next x are the sample, too, and the record of scores begins again. The capital stays, so such
changes do not weaken the bound. An `InputAlarm` never changes in place.

ids, rows    the sample: ids, and rows with the columns of their time. The sample is compared when it has FROZEN x.
columns      the number of columns of names and values when the first x of the sample came; later columns are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hinged.frames import part, prefixed
from hinged.service.data.features.reader import Reading
from hinged.service.data.inputs import Inputs, Records, inputs_state, read_inputs
from hinged.service.model.promises.alarm import AT_ONCE, Alarm
from hinged.solvers.core.rows import Rows, joined
from hinged.solvers.scores.novelty import Sample

Array = np.ndarray[Any, Any]

FROZEN = 128
"""Number of x in the sample. It is part of the state: if it is changed, old logs lead to other states. Measured: 64 and
512 x find changes as soon; a comparison takes time and memory in proportion.
"""


@dataclass(frozen=True, eq=False)
class InputAlarm:
    """The alarm about inputs of one model."""

    alarm: Alarm
    ids: tuple[str, ...] = ()
    rows: Rows | None = None
    columns: int = 0

    @classmethod
    def new(cls, configured: Mapping[Any, float]) -> InputAlarm:
        """Return an alarm that has seen nothing. configured: the part `alarm` of a configuration."""
        return cls(Alarm(configured, 2 * FROZEN + 1, sides=2))

    @cached_property
    def sample(self) -> Sample | None:
        """Return the fixed sample, once it has enough x."""
        return None if self.rows is None or len(self.rows) < FROZEN else Sample(self.rows)

    def saw(self, ids: Sequence[str], inputs: Inputs, numbers: Sequence[int], reading: Reading) -> InputAlarm:
        """Return the alarm after x that came for the first time, in order. numbers: of these x, from 1 on."""
        found, begin = replace(self, alarm=self.alarm.copy()), 0
        while begin < len(ids):
            if found.sample is None:
                end = min(len(ids), begin + FROZEN - len(found.ids))
                found = found.filled(ids[begin:end], inputs.part(begin, end), reading)
            else:
                some = inputs.part(begin, min(len(ids), begin + AT_ONCE))
                count, rows = found.alarm.count, reading(some, found.columns)
                usual, strangeness = found.sample.usual, found.sample.compare(rows)[0]
                scores = usual.searchsorted(strangeness, "left") + usual.searchsorted(strangeness, "right")
                end = begin + found.alarm.add_until(scores.tolist(), numbers[begin:])
                if found.alarm.count > count:
                    found = InputAlarm(found.alarm)
            begin = end
        return found

    def filled(self, ids: Sequence[str], inputs: Inputs, reading: Reading) -> InputAlarm:
        """Return the alarm whose sample has further x."""
        columns = reading.reader.columns if self.rows is None else self.columns
        rows = reading(inputs, columns)
        rows = rows if self.rows is None else joined([self.rows, rows])
        return InputAlarm(self.alarm, (*self.ids, *ids), rows, columns)

    def begun_again(self) -> InputAlarm:
        """Return the alarm with a new sample. The capital stays."""
        alarm = self.alarm.copy()
        alarm.martingale.begin_record()
        return InputAlarm(alarm)

    def without(self, forgotten: Collection[str]) -> InputAlarm:
        """Return the alarm without the x of these ids."""
        return self if set(self.ids).isdisjoint(forgotten) else self.begun_again()

    def figures(self) -> dict[str, Any]:
        """Return the figures. `lacking` is the number of x that the sample still needs."""
        return {**self.alarm.figures(), "lacking": FROZEN - len(self.ids)}

    def memory_bytes(self) -> int:
        """Return the memory of the sample, in bytes."""
        own = 0 if self.rows is None else self.rows.values.nbytes + self.rows.indices.nbytes
        return own + (0 if self.sample is None else self.sample.memory_bytes())

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""
        facts, arrays = (None, {}) if self.rows is None else inputs_state(self.rows)
        arrays = prefixed("rows.", arrays) | self.alarm.state()
        return {"ids": list(self.ids), "rows": facts, "columns": self.columns}, arrays

    def loaded(self, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> InputAlarm:
        """Return the alarm of a result of `state`. Raise ValueError if the parts do not fit each other."""
        alarm, ids = self.alarm.copy(), tuple(facts["ids"])
        alarm.load(dict(arrays))
        rows = None if facts["rows"] is None else read_inputs(facts["rows"], part(arrays, "rows."))
        size = 0 if rows is None else len(rows)
        if isinstance(rows, Records) or not len(ids) == size <= FROZEN or (rows is None) != (size == 0):
            raise ValueError(f"a fixed sample of {size} rows does not fit {len(ids)} ids")
        if alarm.martingale.counts.any() and size < FROZEN:
            raise ValueError(f"there are scores without a fixed sample of {FROZEN} x")
        return InputAlarm(alarm, ids, rows, facts["columns"])
