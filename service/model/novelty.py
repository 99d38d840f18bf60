"""Novelty: a sample of the x that a model has seen, labelled or not, with which further x are compared.

Seen are the x that were learned, offered, or predicted with an id; each counts once while its id waits or is in the
sample. The x number i is drawn if a hash of i, from 0 to 1, is below SAMPLE / min(i, HORIZON). So the sample spreads
over the newest HORIZON x, and a stream of any speed costs the same for each x. Draws do not depend on what x is, so new
x of the same source are exchangeable with the sample, and their p-values are exact (solvers/scores/novelty.py).

The sample is compared in the form of the newest comparison, `rows`: comparing with other rows after each draw would
cost more than the prediction. `Novelty` never changes in place, so drafts and published states share it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hinged.service.data.inputs import Inputs, inputs_state, join_inputs, read_inputs
from hinged.service.model.promises.martingale import uniform
from hinged.solvers.core.rows import Rows
from hinged.solvers.scores.novelty import Sample

Array = np.ndarray[Any, Any]
Reading = Callable[[Inputs], Rows] | None
"""Turns x into rows with the present columns; None before the warm-up has found columns."""

SAMPLE = 512
"""Maximum number of x in the sample. The least p-value is 1 / (SAMPLE + 1); a comparison takes time in proportion."""
HORIZON = 32 * SAMPLE
FIRST = 20  # number of x in the sample from which on there are p-values
RENEWED = 8  # the rows are renewed when one in eight of the sample is new
# All four are part of the state: if one is changed, old logs lead to other states.


@dataclass(frozen=True, eq=False)
class Novelty:
    """seen: number of x seen. ids, xs: the sample, oldest first. fresh: number of x drawn since `rows` were made.

    rows: the sample at that time, with the columns of that time. compared: the same for comparisons.
    """

    seen: int = 0
    fresh: int = 0
    ids: tuple[str, ...] = ()
    xs: tuple[Inputs, ...] = ()
    rows: Rows | None = None
    compared: Sample | None = None

    @cached_property
    def _held(self) -> frozenset[str]:
        return frozenset(self.ids)

    def __contains__(self, given: str) -> bool:
        return given in self._held

    def saw(self, ids: Sequence[str], x_of: Callable[[int], Inputs], reading: Reading) -> Novelty:
        """Return the novelty after x that came for the first time, in order. x_of: returns the x of an index."""
        seen, drawn = self.seen, dict[str, int]()
        for r, given in enumerate(ids):
            if given not in self._held and given not in drawn:
                seen += 1
                if uniform(seen) * min(seen, HORIZON) < SAMPLE:
                    drawn[given] = r
        found = self if seen == self.seen else self._drew(seen, drawn, x_of)
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

    def renewed(self, reading: Reading) -> Novelty:
        """Return the novelty that compares with the present sample."""
        if reading is None or len(self.ids) < FIRST:
            return replace(self, rows=None, compared=None)
        rows = reading(join_inputs(self.xs))
        return replace(self, fresh=0, rows=rows, compared=Sample(rows))

    def without(self, forgotten: Collection[str], reading: Reading) -> Novelty:
        """Return the novelty without the x of these ids, as if they had not been drawn."""
        kept = [r for r, given in enumerate(self.ids) if given not in forgotten]
        return self if len(kept) == len(self.ids) else self._of(kept, self.xs).renewed(reading)

    def changed(self, fit: Callable[[Inputs], Inputs], reading: Reading) -> Novelty:
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

    def figures(self) -> dict[str, int]:
        """Return the number of x seen, and the number of x with which further x are compared."""
        return {"seen": self.seen, "compared": 0 if self.compared is None else self.compared.size}

    def check(self, dim: int, dtype: type) -> None:
        """Raise ValueError for rows of another width or precision than the model's."""
        if self.rows is not None and (self.rows.dim != dim or self.rows.values.dtype != dtype):
            raise ValueError(f"x are compared with rows of {dim} {np.dtype(dtype)}, got {self.rows.dim}")

    def memory_bytes(self) -> int:
        """Return the memory of the comparison and of the sample in two forms, in bytes."""
        if self.rows is None or self.compared is None:
            return 0
        return self.compared.memory_bytes() + 2 * (self.rows.values.nbytes + self.rows.indices.nbytes)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""
        facts: dict[str, Any] = {"seen": self.seen, "fresh": self.fresh, "ids": list(self.ids)}
        arrays: dict[str, Array] = {}
        for name, inputs in (("xs", join_inputs(self.xs) if self.xs else None), ("rows", self.rows)):
            if inputs is not None:
                facts[name], own = inputs_state(inputs)
                arrays |= {f"{name}.{key}": array for key, array in own.items()}
        return facts, arrays

    @classmethod
    def of(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Novelty:
        """Return the novelty of a result of `state`. Raise ValueError if the parts do not fit each other."""

        def inputs(name: str) -> Inputs | None:
            own = {key.removeprefix(f"{name}."): a for key, a in arrays.items() if key.startswith(f"{name}.")}
            return read_inputs(facts[name], own) if name in facts else None

        ids, xs, rows = tuple(facts["ids"]), inputs("xs"), inputs("rows")
        size = 0 if xs is None else len(xs)
        if not len(set(ids)) == len(ids) == size <= min(SAMPLE, facts["seen"]) or facts["fresh"] > size:
            raise ValueError(f"a sample of {size} x, {facts['fresh']} of them fresh, does not fit {len(ids)} ids")
        if rows is not None and not (isinstance(rows, Rows) and FIRST <= len(rows) <= SAMPLE):
            raise ValueError(f"x are compared with {FIRST} to {SAMPLE} rows, got {len(rows)}")
        each = () if xs is None else tuple(xs.row(r) for r in range(size))
        compared = None if rows is None else Sample(rows)
        return cls(facts["seen"], facts["fresh"], ids, each, rows, compared)
