"""Revisions: the times at which another program last changed its copies of examples. The model ignores older versions
of a copy.

The messages of that program may come late, twice, or again after a restart, in any order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from hinged.service.model.window import MS_MAX

Array = np.ndarray[Any, Any]

REVISIONS_KEPT = 10_000
"""Maximum number of ids, at about 200 bytes each. If an id is no longer known, an older version of its example is
mistaken for a newer version.
"""
REMOVED_MS = MS_MAX
"""The time of a change that removed an example. This time is later than any other time."""


class Revisions:
    """The newest revision of each id. Only the ids that changed last are kept, at most REVISIONS_KEPT."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, int] = OrderedDict()  # by id, in milliseconds since 1970, oldest first

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids."""
        return iter(self._newest)

    def of(self, given: str) -> int | None:
        """Return the time of the last known change of this id, or None."""
        return self._newest.get(given)

    def note(self, given: str, changed_ms: int) -> None:
        """Record the time of a change."""
        self._newest[given] = changed_ms
        self._newest.move_to_end(given)
        if len(self._newest) > REVISIONS_KEPT:
            self._newest.popitem(last=False)

    def forget(self, given: str) -> None:
        """Forget the time at which this id changed."""
        self._newest.pop(given, None)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts. There are no arrays."""
        return {"newest": [*map(list, self._newest.items())]}, {}

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:  # noqa: ARG002  there are no arrays
        """Restore the state from a result of `state`. Raise ValueError if an id is repeated, or if there are too
        many.
        """
        self._newest = OrderedDict((given, changed_ms) for given, changed_ms in facts["newest"])
        if len(self._newest) < len(facts["newest"]) or len(self._newest) > REVISIONS_KEPT:
            raise ValueError(f"revisions must have at most {REVISIONS_KEPT} ids, each listed once")
