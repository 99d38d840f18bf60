"""Revisions: when another program last changed an example that it keeps, so that older states of it are ignored.

That program's messages may come late, twice, or again after a restart, in any order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from hinged.service.model.window import MS_MAX

Array = np.ndarray[Any, Any]

REVISIONS_KEPT = 10_000
"""Ids that are kept, at some 200 bytes each. For an id that is no longer kept, an older state is taken for a newer
state."""
REMOVED_MS = MS_MAX
"""The time of a change that removed an example: later than any other time."""


class Revisions:
    """The newest revision of each id, of the REVISIONS_KEPT ids that changed last."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, int] = OrderedDict()  # by id, in milliseconds since 1970, oldest first

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids."""
        return iter(self._newest)

    def of(self, given: str) -> int | None:
        """Return when the known state of this id was changed, or None."""
        return self._newest.get(given)

    def note(self, given: str, changed_ms: int) -> None:
        """Note the time of a change."""
        self._newest[given] = changed_ms
        self._newest.move_to_end(given)
        if len(self._newest) > REVISIONS_KEPT:
            self._newest.popitem(last=False)

    def forget(self, given: str) -> None:
        """Forget the time of this id's change."""
        self._newest.pop(given, None)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts; there are no arrays."""
        return {"newest": [*map(list, self._newest.items())]}, {}

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:  # noqa: ARG002  there are no arrays
        """Take over a result of `state`. ValueError if an id is repeated, or there are too many."""
        self._newest = OrderedDict((given, changed_ms) for given, changed_ms in facts["newest"])
        if len(self._newest) < len(facts["newest"]) or len(self._newest) > REVISIONS_KEPT:
            raise ValueError(f"revisions must have at most {REVISIONS_KEPT} ids, each listed once")
