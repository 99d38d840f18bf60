"""The base class of encoders. An encoder observes the first examples, and then fixes the meaning of its columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

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


class Field(NamedTuple):
    """The columns that an encoder made of a name. The columns of dense features have numbers as names.

    kinds: what its values are: number, category, time, text or identifier.
    values: the column of each of its strings and booleans.
    columns: all its columns, int64; None if other names have some of these columns, too.
    usual: the numbers one deviation below and above the mean; None without numbers.
    """

    name: str
    kinds: tuple[str, ...]
    values: Mapping[str | bool, int]
    columns: Array | None
    usual: tuple[float, float] | None = None


class Encoder(ABC, Generic[X, Item]):
    """Turns x into rows for a solver, according to a warm-up of `warmup` examples. Each observed example is an `Item`.

    The encoder says when to find the columns again from the observed examples. A model that learns the warm-up again
    each time learns fewer than three times as many examples in total.
    """

    NAME: ClassVar[str]
    """The name of this encoder's state in a snapshot."""
    ITEMS: ClassVar[str]
    FIRST: ClassVar[int]
    """Number of examples after which the columns are found for the first time. The number is a power of 2."""
    HAS_WORDS: ClassVar[bool] = False
    """Whether columns reveal names and values that may have to be forgotten together with an example."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.observed: list[Item] = []  # the examples of the warm-up, while it is active
        self.warming = warmup > 0
        self.spread = Spread(0.0, 0.0, 0.0)  # the spread of the warm-up's rows; all 0 before the first freeze

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of columns that have a meaning."""

    # -- the warm-up ----------------------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        """Return the number of examples that the warm-up still needs."""
        return self.warmup - len(self.observed) if self.warming else 0

    @property
    def until_freeze(self) -> int:
        """Return the number of examples until `freeze` is due. `freeze` is due after FIRST examples, at each doubling,
        and at the end.
        """
        return until_found(len(self.observed), self.warmup, self.FIRST) if self.warming else 0

    @abstractmethod
    def items(self, inputs: X) -> list[Item]:
        """Return each x in the form in which it is observed."""

    def observe(self, items: Sequence[Item]) -> bool:
        """Observe the next examples of the warm-up, at most `left`. Return whether `freeze` is due."""
        if len(items) > self.left:
            raise ValueError(f"the warm-up takes {self.left} more {self.ITEMS}, got {len(items)}")
        due = self.warming and len(items) >= self.until_freeze
        self.observed += items
        return due

    @abstractmethod
    def freeze(self) -> CSR:
        """Fix the columns according to the observed examples, and return these examples as rows.

        Before the end of the warm-up, the columns are provisional, and the next `freeze` starts over. At the end, the
        columns become final.
        """

    def _end_if_whole(self) -> None:
        """If the warm-up is complete after a `freeze`, end it: the columns are final, and nothing more is observed."""
        if len(self.observed) == self.warmup:
            self.warming, self.observed = False, []

    # -- rows -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def rows(self, inputs: X, kernel: Kernel, dim: int, dtype: type) -> Rows:
        """Return a batch that is being learned, as rows for a kernel and a precision. New names and values may get
        columns.
        """

    @abstractmethod
    def reader(self) -> Reader[X]:
        """Return a reader for predictions, with the current columns."""

    def from_the_first(self) -> AbstractContextManager[None]:
        """Return a context in which the examples of the log are learned again from the first example."""
        return nullcontext()

    @abstractmethod
    def examples(self, most: int) -> list[X]:
        """Return batches of known values, to test a state: `most` examples of each kind."""

    # -- what an example alone has shown --------------------------------------------------------------------------

    def columns_of(self, inputs: X) -> set[int]:
        """Return the columns of the names and values in a batch."""
        return set()

    def forget(self, columns: Iterable[int]) -> None:
        """Forget the meaning of these columns."""

    def forget_but(self, columns: Iterable[int]) -> None:
        """Forget the meaning of all columns except these."""

    # -- for people, and as a state -------------------------------------------------------------------------------

    def fields(self, most: int) -> list[Field]:
        """Return what the encoder made of the first `most` names, or of the columns if they have no names."""
        return []

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """Return what the warm-up has found, for people."""

    def warnings(self, examples: int) -> list[str]:
        """Return warnings for people. examples: the number of learned examples."""
        return []

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""

    @abstractmethod
    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Restore the state from a result of `state`. Raise ValueError if the state is inconsistent; then nothing
        changes.
        """
