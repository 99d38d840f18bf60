"""The base of encoders: they observe the first examples, and then fix what their columns mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from hinged.service.data.features.reader import Reader
from hinged.service.data.features.spread import Spread
from hinged.service.data.inputs import Inputs
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.rows import Rows
from hinged.solvers.estimators.scaling import CSR, until_found

Array = np.ndarray[Any, Any]
X = TypeVar("X", bound=Inputs)
Item = TypeVar("Item")


class Encoder(ABC, Generic[X, Item]):
    """Turns x into rows for a solver, by what a warm-up of `warmup` examples, each an `Item`, has shown.

    It says when to find the columns again from what it has observed. A model that relearns the warm-up at these moments
    learns fewer than three times as many examples.
    """

    NAME: ClassVar[str]
    """The name of the subclass's state in a snapshot."""
    ITEMS: ClassVar[str]
    FIRST: ClassVar[int]
    """Examples after which the columns are found for the first time; a power of 2."""
    HAS_WORDS: ClassVar[bool] = False
    """Whether columns reveal names and values, which may have to be forgotten with an example."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.observed: list[Item] = []  # examples of the warm-up, while it lasts
        self.warming = warmup > 0
        self.spread = Spread(0.0, 0.0, 0.0)  # as the warm-up has shown; all 0 before

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of columns that have a meaning."""

    # -- the warm-up ----------------------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        """Examples that the warm-up still takes."""
        return self.warmup - len(self.observed) if self.warming else 0

    @property
    def until_freeze(self) -> int:
        """Examples until `freeze` is due: after FIRST examples, twice as many, and so on, and at the warm-up's end."""
        return until_found(len(self.observed), self.warmup, self.FIRST) if self.warming else 0

    @abstractmethod
    def items(self, inputs: X) -> list[Item]:
        """Return each x in the form in which it is observed."""

    def observe(self, items: Sequence[Item]) -> bool:
        """Take the next examples of the warm-up, at most `left`; return whether `freeze` is due."""
        if len(items) > self.left:
            raise ValueError(f"the warm-up takes {self.left} more {self.ITEMS}, got {len(items)}")
        due = self.warming and len(items) >= self.until_freeze
        self.observed += items
        return due

    @abstractmethod
    def freeze(self) -> CSR:
        """Fix the columns by what was observed, and return the observed examples as rows.

        Before the warm-up's end the columns are provisional, and the next `freeze` starts over. At its end they stay.
        """

    def _end_if_whole(self) -> None:
        """End the warm-up after a `freeze` if it is complete: the columns stay, and nothing more is observed."""
        if len(self.observed) == self.warmup:
            self.warming, self.observed = False, []

    # -- rows -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def rows(self, inputs: X, kernel: Kernel, dim: int, dtype: type) -> Rows:
        """Return a batch that is learned as rows for a kernel and a precision. May give columns to names or values that
        have none.
        """

    @abstractmethod
    def reader(self) -> Reader[X]:
        """Return a reader for predictions with the columns of this moment."""

    def from_the_first(self) -> AbstractContextManager[None]:
        """Return a context in which the log's examples are learned again, from the first on."""
        return nullcontext()

    @abstractmethod
    def examples(self, most: int) -> list[X]:
        """Return batches of known values, to try a state with: `most` examples of each kind."""

    # -- what an example alone has shown --------------------------------------------------------------------------

    def columns_of(self, inputs: X) -> set[int]:
        """Return the columns of names and values in a batch."""
        return set()

    def forget(self, columns: Iterable[int]) -> None:
        """Forget what these columns mean."""

    def forget_but(self, columns: Iterable[int]) -> None:
        """Forget what all columns except these mean."""

    # -- for people, and as a state -------------------------------------------------------------------------------

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """Return what the warm-up has found, for people."""

    def warnings(self, examples: int) -> list[str]:
        """Return warnings for people. examples: how many were learned."""
        return []

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""

    @abstractmethod
    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over a result of `state`. ValueError if it is inconsistent; nothing changes then."""
