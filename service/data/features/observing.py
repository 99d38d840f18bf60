"""What is observed of the first examples, before what their columns mean is fixed."""

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
    """What makes rows of x for a solver, by what a warm-up of so many examples, each an `Item`, has shown.

    It tells when it is time to find the columns by what has been seen. A model that learns the warm-up anew at these
    moments learns less than three times as many examples.
    """

    NAME: ClassVar[str]
    """Of what the subclass is, in a snapshot."""
    ITEMS: ClassVar[str]
    FIRST: ClassVar[int]
    """Examples after which the columns are found for the first time; a power of 2."""
    HAS_WORDS: ClassVar[bool] = False
    """Whether columns tell names and values, which may have to be forgotten with an example."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.observed: list[Item] = []  # of the warm-up while it lasts
        self.warming = warmup > 0
        self.spread = Spread(0.0, 0.0, 0.0)  # what the warm-up has shown; all 0 before

    @abstractmethod
    def __len__(self) -> int:
        """Columns that mean something."""

    # -- the warm-up ----------------------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        """Examples that the warm-up still takes."""
        return self.warmup - len(self.observed) if self.warming else 0

    @property
    def until_freeze(self) -> int:
        """Examples until it is time to `freeze`: when FIRST, twice as many ... are there, and at the warm-up's end."""
        return until_found(len(self.observed), self.warmup, self.FIRST) if self.warming else 0

    @abstractmethod
    def items(self, inputs: X) -> list[Item]:
        """Each x as it is observed."""

    def observe(self, items: Sequence[Item]) -> bool:
        """Take the next examples of the warm-up, `left` at most; whether it is time to `freeze`."""
        if len(items) > self.left:
            raise ValueError(f"the warm-up takes {self.left} more {self.ITEMS}, got {len(items)}")
        due = self.warming and len(items) >= self.until_freeze
        self.observed += items
        return due

    @abstractmethod
    def freeze(self) -> CSR:
        """Fix the columns by what was observed, and return that as rows.

        Before the warm-up's end the columns are provisional: the next `freeze` begins anew. At its end they stay.
        """

    def _end_if_whole(self) -> None:
        """Called behind a `freeze`: at the warm-up's end what was found stays, and nothing is observed any more."""
        if len(self.observed) == self.warmup:
            self.warming, self.observed = False, []

    # -- rows -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def rows(self, inputs: X, kernel: Kernel, dim: int, dtype: type) -> Rows:
        """A batch that is learned, as a kernel and a precision see it. It may give columns to what has none."""

    @abstractmethod
    def reader(self) -> Reader[X]:
        """What reads as it would now, for predictions."""

    def from_the_first(self) -> AbstractContextManager[None]:
        """While the log's examples are learned once more, from the first on."""
        return nullcontext()

    @abstractmethod
    def examples(self, most: int) -> list[X]:
        """Batches of what it knows, by which a state is tried: `most` examples of each kind."""

    # -- what an example alone has shown --------------------------------------------------------------------------

    def columns_of(self, inputs: X) -> set[int]:
        """The columns of names and values in a batch."""
        return set()

    def forget(self, columns: Iterable[int]) -> None:
        """Forget what these columns mean."""

    def forget_but(self, columns: Iterable[int]) -> None:
        """Forget what all columns but these mean."""

    # -- for people, and as a state -------------------------------------------------------------------------------

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """What it has found, for people."""

    def warnings(self, examples: int) -> list[str]:
        """What people should know of it. examples: how many were learned."""
        return []

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All of it as facts and arrays."""

    @abstractmethod
    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over a state of `state`. ValueError if it does not fit together; nothing changes then."""
