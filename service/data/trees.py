"""Parse JSON of any length in slices. pydantic's parser would give the same result, but it parses everything in one
step.

A long array or object is cut between its elements. The elements that fit into a window are parsed together. If an
element is longer than a window, the parser goes into the element. Regular expressions without backtracking find the
cuts, so their time is proportional to the size of the window, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from pydantic_core import from_json

from hinged.service.data.problems import place as written_place
from hinged.service.data.slices import Slices
from hinged.service.errors import Invalid

SMALL_BYTES = 2**14
"""Maximum size of a text that is parsed and checked in one step, in bytes. The step takes at most a few milliseconds
(for 2,000 unknown names).
"""
WINDOW_BYTES = 2**16
"""Number of bytes of a longer text that are parsed in one step: 0.3 ms for numbers, 2 ms for empty objects."""
STRING_BYTES_MAX = 2**22
"""Maximum size of a string in a long text, in bytes. Such a string is parsed in one step: 6 ms for escapes."""
NAMES_MAX = 2_000
"""Maximum number of names of an object in a long text. Reporting a problem takes 5 us per name."""
DEPTH_MAX = 100
TAKEN = 200
"""Number of elements that are passed to `Take` at once. Small examples take a few hundred microseconds."""

_STRING = rb'"(?:[^"\\]++|\\.)*+"'


def _inside(depth: int) -> bytes:
    """Return a pattern for the text between two brackets, with at most this depth of nesting."""
    deeper = rb"|[\[{]" + _inside(depth - 1) + rb"[\]}]" if depth else b""
    return rb'(?:[^][{}"]++|' + _STRING + deeper + rb")*+"


_ELEMENT = rb'(?:[^][{}",]++|' + _STRING + rb"|[\[{]" + _inside(4) + rb"[\]}])*+"
ELEMENT = re.compile(_ELEMENT, re.DOTALL)
ELEMENTS = re.compile(rb"(?:" + _ELEMENT + rb",)*+", re.DOTALL)
NUMBERS = re.compile(rb'[^][{}"]*+')
NAME = re.compile(rb"(" + _STRING + rb")[ \t\n\r]*+:", re.DOTALL)
STRING_PART = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
BLANK = re.compile(rb"[ \t\n\r]*+")
SCALAR = re.compile(rb'[^][{}", \t\n\r]*+')


Take: TypeAlias = Callable[[int, list[Any]], Slices[None]]
"""A function that processes some elements of an array. The number is the index of the first element."""


def tree(
    text: bytes | bytearray | memoryview, most: Mapping[str, int], taken: Mapping[str, Take] = MappingProxyType({})
) -> Slices[Any]:
    """Return the parsed JSON of a text. Raise Invalid if the text is not JSON.

    taken: functions for long arrays at the top level, by name. The functions get the elements, and the array in the
    result is empty. The elements therefore never exist all at once; otherwise Python's garbage collector would go
    through them again and again.
    most: the maximum number of elements of a long array that has a name, or that is in an array with that name. "" is
    for all other arrays.
    """
    reader = _Reader(memoryview(text), most, taken)
    yield from reader.blank()
    found = yield from reader.value((), 0)
    yield from reader.blank()
    if reader.at != len(text):
        reader.fail("trailing characters")
    return found


class _Reader:
    """A text, and the position up to which it has been read."""

    def __init__(self, text: memoryview, most: Mapping[str, int], taken: Mapping[str, Take]) -> None:
        self.text = text
        self.at = 0
        self._most = most
        self._taken = taken

    def fail(self, reason: str) -> NoReturn:
        """Raise Invalid, because the text is not JSON at this position."""
        got = bytes(self.text[self.at : self.at + 40])
        raise Invalid(f"body: Invalid JSON: {reason} at byte {self.at}, got {str(got)[1:]}")

    def blank(self) -> Slices[None]:
        """Skip white space."""
        while (end := BLANK.match(self.text, self.at, self.at + WINDOW_BYTES).end()) > self.at:  # type: ignore[union-attr]
            self.at = end
            yield

    def value(self, place: tuple[str | int, ...], depth: int) -> Slices[Any]:
        """Return the value that begins at this position."""
        if depth > DEPTH_MAX:
            self.fail("recursion limit exceeded")
        match bytes(self.text[self.at : self.at + 1]):
            case b"[":
                found: Any = yield from self._array(place, depth)
            case b"{":
                found = yield from self._object(place, depth)
            case b'"':
                found = yield from self._string()
            case _:
                end = SCALAR.match(self.text, self.at, self.at + WINDOW_BYTES).end()  # type: ignore[union-attr]
                if end == self.at + WINDOW_BYTES:
                    self.fail("number out of range")
                found = self._parsed(b"", end, b"")
        return found

    def _array(self, place: tuple[str | int, ...], depth: int) -> Slices[list[Any]]:
        names = [name for name in place[-1:-3:-1] if isinstance(name, str) and name in self._most]
        most = self._most[names[0] if names else ""]
        take = self._taken.get(str(place[0])) if len(place) == 1 else None
        found: list[Any] = []
        count = 0
        self.at += 1
        more = True
        while more:
            part, more = self._whole(b"[", b"]", empty=not count)
            if part is None:
                part = [(yield from self.value((*place, count), depth + 1))]
                more = yield from self._comma(b"]")
            if count + len(part) > most:
                raise Invalid(f"{written_place(place) or 'body'}: at most {most} elements are allowed, got more")
            if take is None:
                found += part
            else:
                for begin in range(0, len(part), TAKEN):
                    yield from take(count + begin, part[begin : begin + TAKEN])
                    yield
            count += len(part)
            yield
        return found

    def _object(self, place: tuple[str | int, ...], depth: int) -> Slices[dict[str, Any]]:
        found: dict[str, Any] = {}
        self.at += 1
        more = True
        while more:
            part, more = self._whole(b"{", b"}", empty=not found)
            if part is None:
                name_end = NAME.match(self.text, self.at, self.at + WINDOW_BYTES)
                if name_end is None:
                    self.fail(f"expected a name in quotes, of less than {WINDOW_BYTES} bytes, and a colon")
                name = self._parsed(b"", name_end.end(1), b"")
                self.at = name_end.end()
                yield from self.blank()
                found[name] = yield from self.value((*place, name), depth + 1)
                more = yield from self._comma(b"}")
            else:
                found |= part
            if len(found) > NAMES_MAX:
                raise Invalid(f"{written_place(place) or 'body'}: at most {NAMES_MAX} names are allowed, got more")
            yield
        return found

    def _whole(self, begin: bytes, end: bytes, *, empty: bool) -> tuple[Any, bool]:
        """Return the parsed elements that end in this window, and whether there are more. Return None if the next
        element is too long for the window.

        empty: whether this is the first element, which may be missing.
        """
        limit = self.at + WINDOW_BYTES
        cut = self.at
        if NUMBERS.match(self.text, self.at, limit).end() == limit:  # type: ignore[union-attr]
            cut = self.at + bytes(self.text[self.at : limit]).rfind(b",") + 1
        if cut == self.at:
            cut = ELEMENTS.match(self.text, self.at, limit).end()  # type: ignore[union-attr]
        if cut > self.at:
            found = self._parsed(begin, cut - 1, end)
            self.at = cut
            if not found:
                self.fail("expected a value")
            return found, True
        last = ELEMENT.match(self.text, self.at, limit).end()  # type: ignore[union-attr]
        if bytes(self.text[last : last + 1]) == end and last < limit:
            found = self._parsed(begin, last, end)
            if not (found or empty):
                self.fail("expected a value")
            self.at = last + 1
            return found, False
        self.at = BLANK.match(self.text, self.at, limit).end()  # type: ignore[union-attr]
        return None, True

    def _comma(self, end: bytes) -> Slices[bool]:
        """Move past the comma or the bracket after an element. Return whether there are more elements."""
        yield from self.blank()
        found = bytes(self.text[self.at : self.at + 1])
        if found not in (b",", end):
            self.fail("expected a comma or the end" if found else "unexpected end")
        self.at += 1
        return found == b","

    def _string(self) -> Slices[str]:
        begin, end = self.at, self.at + 1
        while end - begin <= STRING_BYTES_MAX:
            found = STRING_PART.match(self.text, end, end + WINDOW_BYTES).end()  # type: ignore[union-attr]
            if bytes(self.text[found : found + 1]) == b'"':
                return self._parsed(b"", found + 1, b"")  # type: ignore[no-any-return]
            if found == end:
                self.fail("unexpected end of a string")
            end = found
            yield
        raise Invalid(f"body: a string may have at most {STRING_BYTES_MAX} bytes, got more")

    def _parsed(self, begin: bytes, end: int, after: bytes) -> Any:
        """Parse the text from this position to `end`, between the given brackets, and advance to `end`."""
        try:
            found = from_json(b"".join((begin, self.text[self.at : end], after)))
        except ValueError as error:
            self.fail(str(error).partition(" at line")[0])
        self.at = end
        return found
