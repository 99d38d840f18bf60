"""Labels that come late: what each arm answered when it was asked, and the credit that an arm gets for this answer.

While a label is awaited, an arm learns other examples. So the arm's answer just before it learns the label says little
about its answer when a client asked. If one label resembles the label before it, an arm that forgets quickly is right
just before it learns, and wrong when it is asked 1,000 examples earlier.

So the race remembers what each arm answered when it was asked. An answer then earns ASKED, and an answer now earns NOW.
After a sudden change, the answers now show first which arm has learned the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ASKED, NOW = 0.8, 0.2  # credit for a right answer when the arm was asked, and just before it learns; together 1
LATE = 50
"""Labels come late if, since the race was opened, an arm's answer changed while the label was awaited in more than one
of LATE examples. The label of an answer that stays the same might as well have come at once."""
SERIALS = 2**16  # the serial number of an arm and the number of a class have two bytes each
KEPT = np.dtype("<u2")


def kept_answers(serials: Sequence[int], numbers: Array, leader: int) -> list[bytes]:
    """Return for each row the answers of all arms, first the leader's, as pairs of an arm's serial number and a class.

    serials (A,). numbers (A, m): the class that each arm answers. leader: the index of the leading arm.
    """
    order = [leader, *(a for a in range(len(serials)) if a != leader)]
    arms = np.broadcast_to(np.array(serials, KEPT)[order], numbers.T.shape)
    pairs = np.stack((arms, numbers.T[:, order].astype(KEPT)), axis=-1)
    return [row.tobytes() for row in pairs]


def credit_of(
    right: Array,
    classes: Array,
    serials: Sequence[int],
    asked: Sequence[bytes | None],
    shares: Array | None = None,
) -> tuple[Array, Array]:
    """Return the credit (m, A) of the arms for a batch, from 0 to 1, and whether each example (m,) judges every arm.

    right (m, A): what each arm earns by its answer now, 1 if it is right. asked (m,): the answers that were kept
    (`kept_answers`). They are None if nobody waited for the label, and empty if the race knew nothing when it was
    asked. Then only the answers now count; in the second case they do not judge. An arm that has joined since counts as
    the arm that led. shares (m, K + 1): what each answer earns (`avoided`); None if only the right answer earns 1.
    """
    credit, judges = right.astype(np.float64), np.ones(len(right), bool)
    for r, answers in enumerate(asked):
        if answers is None:
            continue
        pairs = np.frombuffer(answers[: len(answers) // 4 * 4], KEPT).reshape(-1, 2)
        answered = pairs[:, 1]
        then = answered == classes[r] if shares is None else shares[r, np.minimum(answered, shares.shape[1] - 1)]
        of_arm = dict(zip(pairs[:, 0].tolist(), then.tolist(), strict=True))
        judges[r] = all(serial in of_arm for serial in serials)
        if of_arm:
            earned = np.array([of_arm.get(serial, then[0]) for serial in serials], np.float64)
            credit[r] = NOW * credit[r] + ASKED * earned
    return credit, judges
