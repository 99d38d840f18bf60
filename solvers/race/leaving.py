"""The arms that leave a race.

An arm leaves if it is surely behind the leader, and the worst arms leave while there are too many. The more evidence
there is (evidence.py), the fewer arms stay, so that a long stream costs only as much as a few solvers.

Arms are of different kinds: they forget never, slowly or fast. The best arm of each kind always stays. When the data
begin to drift, or stop drifting, an arm of another kind takes the lead, and nobody can know in advance when that will
happen.
"""

from __future__ import annotations

from collections.abc import Sequence

from hinged.solvers.race.standings import Standings, by_rank, surely_behind

LEAST = 2  # number of arms that stay even if they are surely behind
MOST = ((500, 6), (1_000, 4), (3_000, 3))
"""(evidence, arms): after this much evidence since the race was opened, at most this many arms stay."""
FORMER_MOST = ((500, 6), (1_000, 3), (3_000, 2))  # MOST with rules 1 and 2
MOST_LATE = ((1_000, 8), (2_000, 5), (6_000, 4))
"""MOST if labels come late. The first decisions are less certain, because the answers resemble each other."""
SURELY = 2.5  # standard deviations by which an arm must be behind the leader to leave
SURELY_LATE = 5.0
"""The same if labels come late. Arms then are wrong together for as long as the delay, so chance counts for more."""


def staying(standings: Standings, kinds: Sequence[int], since: float, *, late: bool, former: bool) -> list[int]:
    """Return the arms that stay, in ascending order.

    kinds (A,): the kind of each arm. since: evidence since the race was opened. late: whether labels come late.
    former: whether the race has rules 1 or 2.
    """
    limits = MOST_LATE if late else FORMER_MOST if former else MOST
    most = min([len(kinds), *(most for evidence, most in limits if since > evidence)])
    order, behind = by_rank(standings), surely_behind(standings, SURELY_LATE if late else SURELY)
    best: dict[int, int] = {}
    for a in order:
        best.setdefault(kinds[a], a)
    stay = list(best.values())
    good = [a for rank, a in enumerate(order) if rank < LEAST or (rank < most and not behind[a])]
    stay += [a for a in good if a not in stay][: max(0, most - len(stay))]
    return sorted(stay)
