"""When an example was last changed where another program keeps it: an older state of it counts no more.

Messages of that program may come late, twice, or again after a restart, in any order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from hinged.service.model.window import MS_MAX

Array = np.ndarray[Any, Any]

REVISIONS_KEPT = 10_000
"""Ids. One costs some 200 bytes; an older state of what is not among the newest any more is taken for a newer one."""
REMOVED_MS = MS_MAX
"""When something was changed that is no more: later than all else."""


class Revisions:
    """The newest revision of each id, of the REVISIONS_KEPT ids that were heard of last."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, int] = OrderedDict()  # by id, in milliseconds since 1970, oldest first

    def __iter__(self) -> Iterator[str]:
        """The ids."""
        return iter(self._newest)

    def of(self, given: str) -> int | None:
        """When what is known of this id was changed. None where that is not known."""
        return self._newest.get(given)

    def note(self, given: str, changed_ms: int) -> None:
        """This id was heard of."""
        self._newest[given] = changed_ms
        self._newest.move_to_end(given)
        if len(self._newest) > REVISIONS_KEPT:
            self._newest.popitem(last=False)

    def forget(self, given: str) -> None:
        """Nothing is known of this id any more."""
        self._newest.pop(given, None)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All of it as facts, and no arrays."""
        return {"newest": [*map(list, self._newest.items())]}, {}

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:  # noqa: ARG002  it has none
        """Take over a state of `state`. ValueError where something is there twice, or there is too much."""
        self._newest = OrderedDict((given, changed_ms) for given, changed_ms in facts["newest"])
        if len(self._newest) < len(facts["newest"]) or len(self._newest) > REVISIONS_KEPT:
            raise ValueError(f"revisions are of at most {REVISIONS_KEPT} ids, each of them once")
