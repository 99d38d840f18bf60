"""Tombstones of forgotten examples: a keyed hash of each id, and the numbers of the examples that were learned."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np

from hinged.frames import BadFrame
from hinged.solvers.core.states import COUNT_MAX, StateReader

Array = np.ndarray[Any, Any]

SALT_BYTES, MARK_BYTES = 16, 16
"""Bytes of the key and of a mark: enough that no two ids share a mark. Stored marks match only marks of the same
length."""


class Tombstones:
    """Enough to refuse an example that comes again, and too little to tell what it was."""

    def __init__(self) -> None:
        self.salt = ""  # hex; drawn when the first example is forgotten
        self.numbers: set[int] = set()
        self._marks: set[str] = set()

    def __len__(self) -> int:
        return len(self._marks)

    def mark_of(self, given: str, salt: str | None = None) -> str:
        """Return the mark of an id."""
        key = bytes.fromhex(salt or self.salt)
        return hashlib.blake2b(given.encode(), key=key, digest_size=MARK_BYTES).hexdigest()

    def knows(self, given: str) -> bool:
        """Return whether the example of this id was forgotten."""
        return bool(self._marks) and self.mark_of(given) in self._marks

    def known(self, ids: Iterable[str]) -> list[str]:
        """Return those ids that were forgotten."""
        return [given for given in ids if self.knows(given)] if self._marks else []

    def add(self, salt: str, mark: str, number: int | None) -> None:
        """Add a forgotten example."""
        self.salt = self.salt or salt
        self._marks.add(mark)
        if number is not None:
            self.numbers.add(number)

    def copy(self) -> Tombstones:
        """Return a copy for another thread."""
        other = Tombstones()
        other.salt, other.numbers, other._marks = self.salt, set(self.numbers), set(self._marks)
        return other

    def fresh_salt(self) -> str:
        """Return the salt of the marks; a new salt if there are no marks yet."""
        return self.salt or secrets.token_hex(SALT_BYTES)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""
        return {"salt": self.salt, "marks": sorted(self._marks)}, {"numbers": np.array(sorted(self.numbers), np.int64)}

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over a result of `state`."""
        numbers = StateReader(arrays).take("numbers", np.int64, (None,), 1, COUNT_MAX).tolist()
        marks = facts["marks"]
        if len(set(numbers)) < len(numbers) or len(set(marks)) < len(marks) or bool(marks) != bool(facts["salt"]):
            raise BadFrame("a trace is listed twice, or has no salt")
        self.salt, self._marks, self.numbers = facts["salt"], set(marks), set(numbers)
