"""Numbers that the compiled code of all solvers shares: places in `counts`, and reasons why a call stopped."""

from __future__ import annotations

NONE = -1
"""Means "no slot", "no class" or "no key"."""

LIVE, STEPS, LEARNED = range(3)
"""Places in `counts`: number of points, steps, examples learned. A solver may add its own counts after these."""

(
    DONE,
    NEEDS_ROOM,
    NEEDS_REST,
    NEEDS_COMPACTION,
    NEEDS_REMOVAL,
    NEEDS_CLEANING,
    NEEDS_PLACES,
    NEEDS_ROW_ROOM,
) = range(8)
"""Reasons why compiled code stopped.

DONE: the batch ended. NEEDS_ROOM: there is no free slot. NEEDS_REST: other computations are to run. NEEDS_COMPACTION:
there are too many holes. NEEDS_REMOVAL: points_max is reached. NEEDS_CLEANING: there are too many points without a
coefficient. NEEDS_PLACES: there is no free place for the alpha of another example. NEEDS_ROW_ROOM: there is no room for
another recent row.
"""

HOLES_PART, HOLES_MIN = 4, 256
"""Limits of the holes. A solver that compacts while it learns does so once both limits are exceeded: HOLES_MIN holes,
and 1 / HOLES_PART of the number of live points (or of the budget).
"""
