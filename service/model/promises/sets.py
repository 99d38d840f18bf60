"""Scores of labels, and the sets of labels that thresholds give.

The score of a label is half of what the best other label's decision value exceeds its own by. With two classes and the
one column f, this is f for the first class and -f for the second. The score depends on the decision values alone, so a
prediction that waits for its label keeps all that its score needs. A class that has no column yet has an infinite
score.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hinged.service.data.classes import Label
from hinged.service.data.promises import PROMISED_MAX
from hinged.service.model.promises.levels import LEVEL_MAX
from hinged.solvers.core.solver import CLASSES_MAX

Array = np.ndarray[Any, Any]

OUTSIDE, INSIDE, UNPROMISED = range(3)
"""Whether a label is in a set. An UNPROMISED label is in it because too few labels were seen to promise anything."""

_HEAD = struct.Struct("<IqH")
SENT_BYTES_MAX = _HEAD.size + 8 * PROMISED_MAX + CLASSES_MAX  # maximum length of an encoded set


def scores_of(columns: Array, classes: int) -> Array:
    """Return the score (m, classes) of each label. columns (m, K): decision values."""
    m, known = columns.shape
    found = np.full((m, classes), np.inf)
    if known == 1:
        found[:, 0] = columns[:, 0]
        if classes > 1:
            found[:, 1] = 0.0 - columns[:, 0]
    elif known:
        rows, best = np.arange(m), columns.argmax(axis=1)
        others = columns.copy()
        others[rows, best] = -np.inf
        rivals = np.repeat(columns[rows, best][:, None], known, axis=1)
        rivals[rows, best] = others.max(axis=1)
        found[:, :known] = (rivals - columns) / 2.0
    return found


class Sent(NamedTuple):
    """The set that was sent with a prediction.

    promise: a number that identifies the promise. seen: the number of labels that were counted then.
    levels: (rates,) float64 the levels of that time. flags: (classes,) uint8 OUTSIDE, INSIDE or UNPROMISED.
    """

    promise: int
    seen: int
    levels: Array
    flags: Array

    def encode(self) -> bytes:
        """Return the set as bytes."""
        return _HEAD.pack(self.promise, self.seen, self.levels.size) + self.levels.tobytes() + self.flags.tobytes()

    @classmethod
    def decoded(cls, data: bytes) -> Sent:
        """Return the set of a result of `encode`. Raise ValueError for other bytes."""
        promise, seen, rates = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0, 0)
        end = _HEAD.size + 8 * rates
        if len(data) < end:
            raise ValueError(f"a set needs at least {end} bytes, got {len(data)}")
        levels, flags = np.frombuffer(data, np.float64, rates, _HEAD.size), np.frombuffer(data, np.uint8, offset=end)
        if seen < 0 or (flags > UNPROMISED).any() or not (np.abs(levels) <= LEVEL_MAX).all():
            raise ValueError(f"a set of {seen} labels has levels, and a flag from 0 to {UNPROMISED} for each class")
        return cls(promise, seen, levels, flags)


class Limits(NamedTuple):
    """The thresholds of a state. A later state has new thresholds.

    promise, seen: as in Sent. lacking: number of labels that must still come until everything is promised.
    labels: the known labels. levels (rates,): the level of each rate. limits (classes,): the threshold of each label.
    bare (classes,): whether a label has no rate; None if every label has a rate.
    unready (classes,): whether too few labels were seen to promise anything; None if there are enough of every label.
    """

    promise: int
    seen: int
    lacking: int
    labels: Sequence[Label]
    levels: Array
    limits: Array
    bare: Array | None
    unready: Array | None

    def sets(self, columns: Array, numbers: Array) -> Array:
        """Return the flags (m, classes) of the sets.

        columns (m, K): decision values. numbers (m,): predicted classes. A label without a rate is in the set if it
        is predicted.
        """
        m, classes = columns.shape[0], self.limits.size
        if not columns.shape[1] or classes < 2:
            return np.full((m, classes), UNPROMISED, np.uint8)
        return flags_of(scores_of(columns, classes), numbers, self.limits, self.bare, self.unready)

    def of(self, flags: Array) -> list[list[Label]]:
        """Return the labels of each set."""
        return [[label for label, flag in zip(self.labels, row, strict=True) if flag] for row in flags.tolist()]

    def sent(self, flags: Array) -> bytes:
        """Return what a prediction keeps until its label comes. flags (classes,): its set."""
        return Sent(self.promise, self.seen, self.levels, flags).encode()


def flags_of(scores: Array, numbers: Array, limits: Array, bare: Array | None, unready: Array | None) -> Array:
    """Return the flags (m, classes) of the sets; the arguments are described at Limits."""
    inside = scores <= limits
    if bare is not None:
        inside &= ~bare
        inside[np.arange(numbers.size), numbers] |= bare[numbers]
    found = inside.view(np.uint8)
    if unready is not None:
        found[:, unready] = UNPROMISED
    return found
