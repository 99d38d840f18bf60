"""What the compiled code of all solvers numbers in the same way: places in `counts`, and why a call stopped."""

from __future__ import annotations

NONE = -1
"""No slot, no class, no key."""

LIVE, STEPS, LEARNED = range(3)
"""Places in `counts`: points held, steps made, examples learned. A solver's own counts come behind."""

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
"""Why compiled code stopped: at the end of its batch, for want of slots, since others have their turn, for too many
holes, since the points are full, for dead points among the live, for want of places for kernel rows, or of their room.
"""

HOLES_PART, HOLES_MIN = 4, 256
"""Holes are compacted away when there is one for so many live points, or points of the budget, and more than so many
in solvers that compact while they learn."""
