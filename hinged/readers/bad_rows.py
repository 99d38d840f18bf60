"""Rows that cannot be read: where such a row stands, why it cannot be read, and what becomes of it."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from hinged.readers.base import ReadError

if TYPE_CHECKING:
    from pathlib import Path

# Number of bad rows that a message quotes.
QUOTED_MAX = 3


class Place(NamedTuple):
    """The place of a row in its file, or of a message in its topic."""

    file: Path | str
    number: int | str
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.number}"


class UnreadableRow(ReadError):
    """A row cannot be read. The message names its place, and its column if one column is the problem.

    Attributes
    ----------
    row : the row as far as it was read: its text, its fields, or its values by column.
    """

    def __init__(self, place: Place, reason: str, *, column: str | None = None, row: Any = None) -> None:
        super().__init__(f"{place}: {reason}" if column is None else f"{place}, column {column!r}: {reason}")
        self.place, self.reason, self.column, self.row = place, reason, column, row


class BadRows:
    """The policy for bad rows. This policy raises the first bad row."""

    count = 0

    def take(self, error: UnreadableRow) -> None:
        """Accept a bad row, or raise its error."""
        raise error

    def __contains__(self, place: Place) -> bool:
        """Return whether the row at a place was found to be bad."""
        return False

    def told(self) -> str | None:
        """Return a sentence about the bad rows, None without a bad row."""
        return None


class SkippedRows(BadRows):
    """Counts bad rows, and writes them to `file` as JSON lines. A row that is read several times counts once."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = file
        self._places: set[Place] = set()
        self._quoted: list[str] = []

    @property
    def count(self) -> int:  # type: ignore[override]
        """Return the number of bad rows."""
        return len(self._places)

    def __contains__(self, place: Place) -> bool:
        return place in self._places

    def take(self, error: UnreadableRow) -> None:
        """Count a row, and write it to the file."""
        if error.place in self._places:
            return
        self._places.add(error.place)
        if len(self._quoted) < QUOTED_MAX:
            self._quoted.append(str(error))
        if self._file is not None:
            column = {} if error.column is None else {"column": error.column}
            number = {"number" if error.place.unit == "row" else error.place.unit: error.place.number}
            found = {**number, **column, "reason": error.reason, "row": error.row}
            self._file.write(json.dumps(found, ensure_ascii=False, default=str) + "\n")

    def told(self) -> str | None:
        """Return how many rows were bad, with the first reasons."""
        if not self.count:
            return None
        kept = "" if self._file is None else f" and written to {self._file.name}"
        more = "; ..." if self.count > len(self._quoted) else ""
        rows = "1 bad row was" if self.count == 1 else f"{self.count:,} bad rows were"
        return f"{rows} skipped{kept}: {'; '.join(self._quoted)}{more}"


STOP = BadRows()
