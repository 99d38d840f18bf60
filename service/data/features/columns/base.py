"""What a kind of column is: what the strings of some names are, and what columns come of them.

A new kind is a class in a file of this folder, and its place in the list of catalogue.py. A class that leaves open
what `ColumnKind` asks is refused at import. The numbers and the booleans of a name are of no kind: its numbers have one
column, and each boolean has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from hinged.service.data.features.records import STRING_CHARS_MAX, Record
from hinged.solvers.core.states import StateReader
from hinged.solvers.estimators.scaling import CLIP

Array = np.ndarray[Any, Any]

Aspect: TypeAlias = tuple[str, ...]
"""What a column tells of a string that is more than a category."""

Value: TypeAlias = str | bool | Aspect | None
"""What a column of a name stands for: a string, a boolean, an aspect of its strings, or (None) the name's numbers."""

Told: TypeAlias = Sequence[tuple[Value, float]]
"""By column, the numbers that come of a string."""

Strings: TypeAlias = Mapping[str, list[str]]
"""The strings of each name, in the order of the records."""


class Measure(NamedTuple):
    """How the numbers of a column are taken.

    standardised: whether the warm-up brings them to mean 0 and deviation 1. limit: they are held within it. follows:
    whether an example may leave no trace in the column, so that it is forgotten with the last other one of its name.
    """

    standardised: bool
    limit: float = CLIP
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """What a configuration says of columns.

    kinds: by name, what its strings are. found: the kinds for which the warm-up looks among the other names. warmup:
    its examples. since: names of times that tell how long it is since the example before, None for all. buckets:
    columns of texts; None for as many as they usually have.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    found: AbstractSet[str] = frozenset()
    warmup: int = 0
    since: AbstractSet[str] | None = frozenset()
    buckets: int | None = None


class ColumnKind(ABC):
    """A kind of column in one vocabulary, and the names that have it.

    NAME, MEANING: what a configuration says, and what that means; DECLARED: whether it may be said of a name. FOUND_BY:
    the part of named features that has the warm-up look for it. CHARS_MAX: of a string. SQUARE_MAX: of x.x, by a name.
    ASPECTS: its columns, but for those that are strings. STRICT: whether a string of which nothing is told lies outside
    of what was learned. WIDTH: columns that a hash finds, behind those of names. EXAMPLE: a string of it.

    What readers look at never changes once the warm-up has been read: what is forgotten begins new sets.
    """

    NAME: ClassVar[str]
    MEANING: ClassVar[str]
    EXAMPLE: ClassVar[str]
    SQUARE_MAX: ClassVar[float]
    DECLARED: ClassVar[bool] = True
    FOUND_BY: ClassVar[str | None] = None
    CHARS_MAX: ClassVar[int] = STRING_CHARS_MAX
    ASPECTS: ClassVar[Mapping[Aspect, Measure]] = {}
    STRICT: ClassVar[bool] = False
    WIDTH: ClassVar[int] = 0

    clipped = False
    """Whether its columns are learned within CLIP, whatever their limits are."""

    def __init__(self, said: Said) -> None:
        self.declared = frozenset(name for name, kind in said.kinds.items() if kind == self.NAME)
        self.names: AbstractSet[str] = self.declared
        self.looked_for = self.NAME in said.found

    # -- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def told(self, name: str, text: str, before: dict[str, float], *, notes: bool) -> Told:
        """The columns of a string, and the numbers there.

        before: by name, what it remembers of the example before; notes: whether this one is the next one's.
        """

    def hashed(self, name: str, text: str) -> tuple[Sequence[tuple[int, float]], bool]:
        """Of the WIDTH columns that a hash finds, those of a string and their numbers; and whether any is known."""
        raise NotImplementedError

    @property
    def known(self) -> int:
        """Of the WIDTH columns, those that the warm-up has shown."""
        return 0

    # -- the warm-up ----------------------------------------------------------------------------------------------

    def observe(self, records: Sequence[Record], strings: Strings) -> None:
        """Find names, and what else is to be known, in the records of the warm-up; strings: of names that have no kind.

        It is asked once, of a kind that is new.
        """

    def keep(self, names: AbstractSet[str]) -> None:
        """Forget the names that have no columns any more, but for those that a configuration tells."""

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What it has found, as facts and arrays."""
        return {}, {}

    def load(self, facts: dict[str, Any], read: StateReader) -> None:
        """Take over a state of `state`, of a kind that is new. ValueError if it is none."""

    # -- for people -----------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """What it has found, for people."""
        return {}

    def of_field(self) -> dict[str, Any]:
        """What is told of each name that has it."""
        return {}

    def warnings(self) -> list[str]:
        """A sentence for each name of which people should know."""
        return []
