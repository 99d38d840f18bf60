"""The rule for a rare class. The estimators and the metrics of the server warn about the same classes."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

RARE = 0.05
"""Share of the labels below which a class is rare. Accuracy then says little about the class."""
RARE_OF_EQUAL = 0.25  # a rare class also has less than this part of an equal share, as with many classes
RARE_LABELS_MIN = 100  # number of labels below which no class counts as rare


def rare_class(counts: Array) -> tuple[int, str] | None:
    """Return the number of the rarest class, and its share in percent. Return None if no class is rare. counts:
    (classes,), the labels of each class; a class without labels does not count.
    """
    total, known = int(counts.sum()), counts[counts > 0]
    if total < RARE_LABELS_MIN or known.size < 2:
        return None
    number = int(np.where(counts > 0, counts, total).argmin())
    share = float(counts[number]) / total
    return (number, f"{100 * share:.2g} %") if share < min(RARE, RARE_OF_EQUAL / known.size) else None


def warning_of_labels(classes: Array, numbers: Array, weights: Array | None, *, priced: bool) -> str | None:
    """Return a warning if the labels of a data set are of one class, or if a class is rare.

    classes: (K,), the labels. numbers: (n,), the place of each example's label in `classes`. weights: (n,), of the
    examples, or None; an example of weight 0 does not count. priced: whether the user has said what errors cost. Then,
    and with weights, a rare class needs no warning.
    """
    counts = np.bincount(numbers if weights is None else numbers[weights > 0], minlength=len(classes))
    there = classes[counts > 0].tolist()
    if len(there) == 1:
        return f"y has a single class, {there[0]!r}: every prediction will be this class"
    found = rare_class(counts) if weights is None and not priced else None
    if found is None:
        return None
    number, share = found
    return (
        f"{share} of the labels are {classes.tolist()[number]!r}: accuracy says little; look at the recall of each "
        "class, and set class_weight"
    )
