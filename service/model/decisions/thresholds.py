"""Count what a threshold on the probability of a class would have meant, for a model of two classes.

A threshold and the costs of the two errors say the same: deciding for the class from probability t on is best if a
missed example of the class costs (1 - t) / t times as much as a false one. Each threshold here keeps the present cost
of a false decision, and so stands for a cost of a missed one. With a cost of asking, the server would ask near the
threshold. The costs of all rules are counted by the present costs.

counts   (2, BINS)  weights of the other examples, and of the examples of the class, by bin; see margins.py.
chances  (BINS,)    the probability of the class in each bin, which never falls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.service.data.costs import ASK
from hinged.service.model.decisions.costs import ASKED, CostTable
from hinged.solvers.core.states import BOUND_MAX

Array = np.ndarray[Any, Any]
Figures = dict[str, Any]

THRESHOLDS = np.array([0.001, 0.002, 0.005, *(k / 100 for k in range(1, 100)), 0.995, 0.998, 0.999])
DIGITS = 4  # significant digits of a cost


def thresholds(counts: Array, chances: Array, table: CostTable, number: int, beta: float = 1.0) -> Figures:
    """Return the present costs, the rules to compare with, and the curve over THRESHOLDS.

    number: the class. beta: how many times as important its recall is as its precision (C. J. van Rijsbergen,
    Information Retrieval, 1979).
    """
    matrix, other, n = table.matrix(), 1 - number, float(counts.sum())
    right, passed = float(matrix[number, number]), float(matrix[other, other])
    missed, false = float(matrix[number, other]) - right, float(matrix[other, number]) - passed
    costs = {"missed": missed + right, "false": false + passed, ASK: table.ask}
    found = {
        "examples": n,
        "costs": costs,
        "threshold": false / (missed + false) if missed > 0 and false > 0 else None,
        "rules": {},
        "curve": None,
    }
    if not n:
        return found
    held = counts.any(axis=0)
    counts, chances = counts[:, held], chances[held]

    def paid(decisions: Array) -> Figures:
        """Return the shares of all examples, and the mean cost. decisions (..., BINS): class numbers or ASKED."""
        shares = {
            (truth, decision): np.where(decisions == decision, counts[int(truth == number)], 0.0).sum(axis=-1) / n
            for truth in (number, other)
            for decision in (number, other, *(() if table.ask is None else (ASKED,)))
        }
        asked = shares.get((number, ASKED), 0.0) + shares.get((other, ASKED), 0.0) + np.zeros(decisions.shape[:-1])
        cost = sum(matrix[truth, decision] * share for (truth, decision), share in shares.items())
        right, false, missed = shares[number, number], shares[other, number], shares[number, other]
        parts: Figures = {"right": right, "false": false, "missed": missed, "asked": asked, "cost": cost}
        return {name: np.asarray(each).tolist() for name, each in parts.items()}

    of_classes = np.empty((chances.size, 2))
    of_classes[:, number], of_classes[:, other] = chances, 1.0 - chances
    simple = {"never": other, "always": number} | ({} if table.ask is None else {ASK: ASKED})
    rules = {name: np.full(chances.size, decision) for name, decision in simple.items()}
    false = false if false > 0 else 1.0
    as_missed = np.array([_rounded(right + false * (1.0 - t) / t) for t in THRESHOLDS])
    decisions = np.where(chances >= THRESHOLDS[:, None], number, other)
    certain = paid(decisions)
    if table.ask is not None:
        if_class = chances * right + (1.0 - chances) * (passed + false)
        if_other = chances * as_missed[:, None] + (1.0 - chances) * passed
        decisions = np.where(np.minimum(if_class, if_other) > table.ask, ASKED, decisions)
    there = float(counts[1].sum()) / n
    decided = np.array(certain["right"]) + certain["false"]
    return found | {
        "costs": costs | {"false": passed + false},
        "rules": {name: paid(each) for name, each in {"present": table.decide(of_classes)[0], **rules}.items()},
        "curve": {
            "threshold": THRESHOLDS.tolist(),
            "missed_cost": as_missed.tolist(),
            **paid(decisions),
            "precision": [a / b if b else None for a, b in zip(certain["right"], decided.tolist(), strict=True)],
            "recall": [a / there if there else None for a in certain["right"]],
            "f_beta": [
                (1.0 + beta**2) * a / whole if (whole := b + beta**2 * there) else None
                for a, b in zip(certain["right"], decided.tolist(), strict=True)
            ],
        },
    }


def _rounded(cost: float) -> float:
    return min(float(f"{cost:.{DIGITS}g}"), BOUND_MAX / 10)
