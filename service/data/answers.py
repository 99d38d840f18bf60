"""Write the JSON of answers with pydantic's encoder. The encoder blocks the event loop, so long answers are written in
pieces.

The values of a long answer are also made piece by piece: its long lists are Parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydantic_core import to_json

from hinged.service.data.slices import Slices

Answer = dict[str, Any]
"""An answer in the form of JSON. A long list in an answer is a Parts object."""

VALUES_MAX = 5_000
"""Maximum number of numbers and texts that are made and written in one step, which takes a few milliseconds. An answer
with more values counts as long.
"""
LIST_MAX = 400
"""Number of results in a list that are written in one step."""


class Parts:
    """A long list. Each part of it is made when the part is written."""

    def __init__(self, length: int, size: int, make: Callable[[int, int], list[Any]]) -> None:
        """size: rough number of numbers and texts per element. make: returns elements begin to end - 1."""
        self.length = length
        self._step = max(1, VALUES_MAX // max(1, size))
        self._make = make

    @property
    def short(self) -> bool:
        """Return whether there is only one part, which may be made at once."""
        return self.length <= self._step

    def __iter__(self) -> Iterator[list[Any]]:
        for begin in range(0, self.length, self._step):
            yield self._make(begin, min(self.length, begin + self._step))

    def all(self) -> list[Any]:
        """Return all elements."""
        return self._make(0, self.length)


def json_bytes(content: Any) -> bytes:
    """Return an answer as JSON."""
    return to_json(content, inf_nan_mode="constants")


def is_long(content: Any) -> bool:
    """Return whether an answer is written in pieces: it is an object, and it or one of its parts contains a long
    list.
    """
    return type(content) is dict and any(map(_is_long, content.values()))


def _is_long(part: Any) -> bool:
    kind = type(part)
    if kind is Parts:
        return True
    if kind is list:
        return len(part) > LIST_MAX or any(map(is_long, part[:3]))
    return False


def json_pieces(content: Any) -> Slices[list[bytes]]:
    """Return the same JSON in pieces."""
    found: list[bytes] = []
    for piece in _pieces(content):
        found.append(piece)
        yield
    return found


def _pieces(content: Any) -> Iterator[bytes]:
    if isinstance(content, Parts):
        yield from _listed(content)
    elif isinstance(content, list) and len(content) > LIST_MAX:
        yield from _listed(content[begin : begin + LIST_MAX] for begin in range(0, len(content), LIST_MAX))
    elif isinstance(content, dict) and any(map(_is_long, content.values())):
        before = b"{"
        for name, part in content.items():
            yield before + json_bytes(name) + b":"
            yield from _pieces(part)
            before = b","
        yield b"}"
    elif isinstance(content, list) and any(map(is_long, content)):
        before = b"["
        for part in content:
            yield before
            yield from _pieces(part)
            before = b","
        yield b"]"
    else:
        yield json_bytes(content)


def _listed(parts: Iterable[list[Any]]) -> Iterator[bytes]:
    before = b"["
    for part in parts:
        yield before + json_bytes(part)[1:-1]
        before = b","
    yield b"]" if before == b"," else b"[]"
