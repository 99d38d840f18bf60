"""Strings that are categories, each with its own column, and identifiers, which have no columns because identifiers
hardly ever repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from hinged.service.data.features.columns.base import ColumnKind, Said, Strings, Told
from hinged.service.data.features.records import NAME_CHARS_MAX, Record
from hinged.solvers.core.states import StateReader

UNIQUE_MIN = 50  # minimum number of different strings of an identifier; a name with fewer has categories
UNIQUE_SHARE = 0.9  # minimum share of different strings at which the strings of a name count as identifiers
NAMES_SHOWN = 100


class Categories(ColumnKind):
    """Strings that are values, one column per string. A name has this kind if it has no other kind (see `pieces`)."""

    NAME, MEANING = "category", "each string is a value"
    EXAMPLE, SQUARE_MAX = "rehearsed", 1.0

    def told(self, name: str, text: str, before: dict[str, float], *, notes: bool) -> Told:
        """Return the column of the string itself."""
        return [(text, 1.0)]


class Identifiers(ColumnKind):
    """Strings that nearly all differ. Such strings have no columns."""

    NAME, MEANING = "identifier", "strings that nearly all differ"
    EXAMPLE, SQUARE_MAX = "rehearsed", 0.0
    DECLARED: ClassVar[bool] = False
    FOUND_BY: ClassVar[str] = "identifiers"

    def __init__(self, said: Said) -> None:
        super().__init__(said)
        self._said = said
        self._left_out: dict[str, int] = {}  # for each name, the number of different strings

    def told(self, name: str, text: str, before: dict[str, float], *, notes: bool) -> Told:
        """Return no columns."""
        return ()

    def observe(self, records: Sequence[Record], strings: Strings) -> None:
        if self.looked_for:
            found = {name: len(set(given)) for name, given in strings.items()}
            self._take({n: k for n, k in found.items() if k >= max(UNIQUE_MIN, UNIQUE_SHARE * len(strings[n]))})

    def _take(self, left_out: dict[str, int]) -> None:
        self._left_out, self.names = left_out, left_out.keys()

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"left_out": list(self._left_out.items())} if self._left_out else {}, {}

    def load(self, facts: dict[str, Any], read: StateReader) -> None:
        entries = [tuple(entry) for entry in facts.get("left_out", [])]
        for entry in entries:
            match entry:
                case (str(name), int(values)) if type(values) is int and 0 < values <= self._said.warmup:
                    fits = len(name) <= NAME_CHARS_MAX and name not in self._said.kinds
                case _:
                    fits = False
            if not (fits and self.looked_for):
                raise ValueError(f"a name must be left out after its warm-up, and undeclared, got {entry!r:.80}")
        names = dict(entries)
        if len(names) < len(entries) or any(name in names and type(value) is str for name, value in facts["columns"]):
            raise ValueError("a name that was left out is listed twice, or has a column for a string")
        self._take(names)

    def figures(self) -> dict[str, Any]:
        return {"left_out": dict(list(self._left_out.items())[:NAMES_SHOWN])} if self._left_out else {}

    def warnings(self) -> list[str]:
        return [
            f"{name[:80]!r} is left out: its {values} different strings in the warm-up hardly ever come again. To use "
            "each string, declare it a category in a new model; to use their words, declare it a text"
            for name, values in list(self._left_out.items())
        ]
