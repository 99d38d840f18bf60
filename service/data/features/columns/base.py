"""The base of a kind of column: what the strings of some names mean, and which columns they make.

A new kind is a class in a file of this folder, and an entry in the list of catalogue.py. A class that does not define
what `ColumnKind` requires is refused at import. Numbers and booleans have no kind: a name's numbers have one column,
and each boolean has one.
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
"""An aspect of a string that a column shows, if strings are more than categories."""

Value: TypeAlias = str | bool | Aspect | None
"""The meaning of a column of a name: a string, a boolean, an aspect of its strings, or (None) the name's numbers."""

Told: TypeAlias = Sequence[tuple[Value, float]]
"""The numbers that a string makes, by column."""

Strings: TypeAlias = Mapping[str, list[str]]
"""The strings of each name, in the order of the records."""


class Measure(NamedTuple):
    """How the numbers of a column are scaled and clipped.

    standardised: whether the warm-up brings them to mean 0 and deviation 1.
    limit: they are clipped to -limit..limit.
    follows: whether an example may leave no trace in the column, so that it is forgotten with the name's last other
    column.
    """

    standardised: bool
    limit: float = CLIP
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A configuration's declarations about columns.

    kinds: the kinds of names' strings.
    found: the kinds that the warm-up looks for among the other names.
    warmup: number of its examples.
    since: names of times with a column for the time since the example before; None: all names of times.
    buckets: columns of texts; None: the default.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    found: AbstractSet[str] = frozenset()
    warmup: int = 0
    since: AbstractSet[str] | None = frozenset()
    buckets: int | None = None


class ColumnKind(ABC):
    """A kind of column in one vocabulary, and the names that have it.

    NAME, MEANING: its name in a configuration, and what it means; DECLARED: whether a configuration may declare it for
    a name.
    FOUND_BY: the part of named features that makes the warm-up look for it.
    CHARS_MAX: of a string. SQUARE_MAX: of x.x, per name.
    ASPECTS: its columns, except those for whole strings.
    STRICT: whether a string that makes no columns lies outside everything learned.
    WIDTH: hashed columns, behind the columns of names.
    EXAMPLE: a string of this kind.

    After the warm-up, sets that readers use never change: forgetting makes new sets.
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
    """Whether its columns are clipped to CLIP when learned, whatever their limits are."""

    def __init__(self, said: Said) -> None:
        self.declared = frozenset(name for name, kind in said.kinds.items() if kind == self.NAME)
        self.names: AbstractSet[str] = self.declared
        self.looked_for = self.NAME in said.found

    # -- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def told(self, name: str, text: str, before: dict[str, float], *, notes: bool) -> Told:
        """Return the columns of a string, and their numbers.

        before: by name, what the kind remembers of the example before.
        notes: whether to remember this example for the next.
        """

    def hashed(self, name: str, text: str) -> tuple[Sequence[tuple[int, float]], bool]:
        """Return a string's hashed columns (of WIDTH) and their numbers; and whether any of its columns is known."""
        raise NotImplementedError

    @property
    def known(self) -> int:
        """How many of the WIDTH columns the warm-up has shown."""
        return 0

    # -- the warm-up ----------------------------------------------------------------------------------------------

    def observe(self, records: Sequence[Record], strings: Strings) -> None:
        """Find names, and whatever else the kind needs, in the records of the warm-up; strings: of names without a
        kind.

        Called once, on a new instance.
        """

    def keep(self, names: AbstractSet[str]) -> None:
        """Forget the names that no longer have columns, except those that a configuration declares."""

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what the warm-up has found, as facts and arrays."""
        return {}, {}

    def load(self, facts: dict[str, Any], read: StateReader) -> None:
        """Take over a result of `state` into a new instance. ValueError if it is invalid."""

    # -- for people -----------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """Return what the warm-up has found, for people."""
        return {}

    def of_field(self) -> dict[str, Any]:
        """Return facts about each name of this kind, for people."""
        return {}

    def warnings(self) -> list[str]:
        """Return a warning for each name that people should know about."""
        return []
