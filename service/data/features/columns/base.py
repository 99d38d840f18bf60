"""The base class of the kinds of columns. A kind says what the strings of some names mean, and which columns they make.

To add a new kind, write a class in a file of this folder, and add it to the list in catalogue.py. If a class does not
define everything that `ColumnKind` requires, its import fails. Numbers and booleans have no kind: the numbers of a name
share one column, and each boolean value has its own column.
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
"""An aspect of a string, such as the time of day of a moment. Each aspect has its own column."""

Value: TypeAlias = str | bool | Aspect | None
"""The meaning of a column of a name. The meaning is a string, a boolean, or an aspect of the name's strings. None means
the name's numbers.
"""

Told: TypeAlias = Sequence[tuple[Value, float]]
"""The number that a string gives to each of its columns."""

Strings: TypeAlias = Mapping[str, list[str]]
"""The string values of each named feature, in the order of the records."""


class Measure(NamedTuple):
    """How the numbers of a column are scaled and clipped.

    standardised: whether the warm-up scales the numbers to mean 0 and deviation 1.
    limit: the numbers are clipped to -limit..limit.
    follows: whether an example with this name may have no number in the column. Such a column is forgotten when its
    name has no other column left.
    """

    standardised: bool
    limit: float = CLIP
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """The declarations about columns in a configuration.

    kinds: the kind of string of each declared name.
    found: the kinds that the warm-up tries for the other names.
    warmup: the number of examples in the warm-up.
    since: names of times that get a column for the time since the previous example. None: all names of times.
    buckets: the number of hashed columns for texts. None: the default.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    found: AbstractSet[str] = frozenset()
    warmup: int = 0
    since: AbstractSet[str] | None = frozenset()
    buckets: int | None = None


class ColumnKind(ABC):
    """A kind of column in one vocabulary, and the names that have this kind.

    NAME, MEANING: its name in a configuration, and its meaning. DECLARED: whether a configuration may declare the kind
    for a name.
    FOUND_BY: the part of the named features that makes the warm-up search for this kind.
    CHARS_MAX: maximum length of a string. SQUARE_MAX: maximum contribution of a name to x.x.
    ASPECTS: its columns, apart from columns for whole strings.
    STRICT: whether a string that makes no columns counts as outside everything learned.
    WIDTH: number of hashed columns, which come after the columns of names.
    EXAMPLE: an example of a string of this kind.

    After the warm-up, the sets that readers use never change. Forgetting replaces these sets with new sets.
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
    """Whether learned numbers of its columns are clipped to CLIP, whatever the limits of the columns are."""

    def __init__(self, said: Said) -> None:
        self.declared = frozenset(name for name, kind in said.kinds.items() if kind == self.NAME)
        self.names: AbstractSet[str] = self.declared
        self.looked_for = self.NAME in said.found

    # -- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def told(self, name: str, text: str, before: dict[str, float], *, notes: bool) -> Told:
        """Return the columns of a string, and the number in each column.

        before: what the kind remembers of the previous example, by name.
        notes: whether to remember this example for the next example.
        """

    def hashed(self, name: str, text: str) -> tuple[Sequence[tuple[int, float]], bool]:
        """Return the hashed columns (of WIDTH) of a string with their numbers, and whether any of these columns is
        known.
        """
        raise NotImplementedError

    @property
    def known(self) -> int:
        """Return how many of the hashed columns occurred in the warm-up."""
        return 0

    # -- the warm-up ----------------------------------------------------------------------------------------------

    def observe(self, records: Sequence[Record], strings: Strings) -> None:
        """Find names, and whatever else the kind needs, in the records of the warm-up. strings: the strings of names
        without a kind.

        This method is called once, on a new instance.
        """

    def keep(self, names: AbstractSet[str]) -> None:
        """Forget the names that no longer have columns, apart from names that a configuration declares."""

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what the warm-up has found, as facts and arrays."""
        return {}, {}

    def load(self, facts: dict[str, Any], read: StateReader) -> None:
        """Load a result of `state` into a new instance. Raise ValueError if the state is invalid."""

    # -- for people -----------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """Return what the warm-up has found, for people."""
        return {}

    def of_field(self) -> dict[str, Any]:
        """Return facts about each name of this kind, for people."""
        return {}

    def warnings(self) -> list[str]:
        """Return warnings for people, each about a name."""
        return []
