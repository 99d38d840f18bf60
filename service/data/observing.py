"""What is observed of the first examples, before what their columns mean is fixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from hinged.solvers.estimators.scaling import until_found

Item = TypeVar("Item")


class Observing(Generic[Item]):
    """A warm-up of so many examples, each an `Item`, and when it is time to find the columns by what has been seen.

    A model that learns the warm-up anew at these moments learns less than three times as many examples.
    """

    NAME: ClassVar[str]
    """Of what the subclass is, in a snapshot."""
    ITEMS: ClassVar[str]
    FIRST: ClassVar[int]
    """Examples after which the columns are found for the first time; a power of 2."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.observed: list[Item] = []  # of the warm-up while it lasts
        self.warming = warmup > 0

    @property
    def left(self) -> int:
        """Examples that the warm-up still takes."""
        return self.warmup - len(self.observed) if self.warming else 0

    @property
    def until_freeze(self) -> int:
        """Examples until it is time to `freeze`: when FIRST, twice as many ... are there, and at the warm-up's end."""
        return until_found(len(self.observed), self.warmup, self.FIRST) if self.warming else 0

    def observe(self, items: Sequence[Item]) -> bool:
        """Take the next examples of the warm-up, `left` at most; whether it is time to `freeze`."""
        if len(items) > self.left:
            raise ValueError(f"the warm-up takes {self.left} more {self.ITEMS}, got {len(items)}")
        due = self.warming and len(items) >= self.until_freeze
        self.observed += items
        return due

    def _end_if_whole(self) -> None:
        """Called behind a `freeze`: at the warm-up's end what was found stays, and nothing is observed any more."""
        if len(self.observed) == self.warmup:
            self.warming, self.observed = False, []
