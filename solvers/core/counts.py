"""Numbers that the compiled code of all solvers shares: places in `counts`, and reasons why a call stopped."""

from __future__ import annotations

NONE = -1
"""Stands for "no slot", "no class" and "no key"."""

LIVE, STEPS, LEARNED = range(3)
"""Places in `counts`: points held, steps made, examples learned. A solver's own counts follow."""

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
"""Why compiled code stopped.

DONE: the batch ended. NEEDS_ROOM: no free slot. NEEDS_REST: other computations have their turn. NEEDS_COMPACTION: too
many holes. NEEDS_REMOVAL: the points are full. NEEDS_CLEANING: too many points without a coefficient. NEEDS_PLACES:
no free place for the alpha of another example. NEEDS_ROW_ROOM: no room for another recent row.
"""

HOLES_PART, HOLES_MIN = 4, 256
"""Solvers that compact while they learn do so once holes exceed HOLES_MIN and a HOLES_PART-th of the live points (or of
the budget)."""
