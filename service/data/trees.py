"""Parse JSON of any length in slices. pydantic's parser would give the same result, but it parses everything in one
step.

A long array or object is cut between its elements. The elements that fit into a window are parsed together. If an
element is longer than a window, the parser goes into the element. Regular expressions without backtracking find the
cuts, so their time is proportional to the size of the window, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from pydantic_core import from_json

from hinged.service.data.problems import place as written_place
from hinged.service.data.slices import FreedInSlices, Slices
from hinged.service.errors import Invalid

SMALL_BYTES = 2**14
"""Maximum size of a text that is parsed and checked in one step, in bytes. The step takes at most a few milliseconds
(for 2,000 unknown names).
"""
WINDOW_BYTES = SMALL_BYTES
"""Number of bytes of a longer text that are parsed in one step: 0.2 ms for numbers, 1.5 ms for lists of one number."""
STRING_BYTES_MAX = 2**22
"""Maximum size of a string in a long text, in bytes. Such a string is parsed in one step: 6 ms for escapes."""
NAMES_MAX = 2_000
"""Maximum number of names of an object in a long text. Reporting a problem takes 5 us per name."""
DEPTH_MAX = 100
NESTED_MAX = 2**17
"""Maximum number of values below the elements of long arrays and objects, except what is passed to `Take`. The garbage
collector goes through all of them in one step: up to 10 ms for this many.
"""
CONTAINERS = {list, dict}
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


class Long(dict[str, Any]):
    """A long object that was parsed in slices. It is checked in slices and freed in slices, too."""

    freed: FreedInSlices


class Flat(list[Any]):
    """The elements of the arrays in a long array, one after another. lengths: the length of each of these arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []


def tree(
    text: bytes | bytearray | memoryview,
    most: Mapping[str, int],
    taken: Mapping[str, Take] = MappingProxyType({}),
    flat: str | None = None,
) -> Slices[Any]:
    """Return the parsed JSON of a text; an object is a Long. Raise Invalid if the text is not JSON.

    flat: the name of arrays that become a Flat if they are long, and their elements are arrays.
    taken: functions for long arrays at the top level, by name. The functions get the elements, and the array in the
    result is empty. The elements therefore never exist all at once; otherwise Python's garbage collector would go
    through them again and again.
    most: the maximum number of elements of a long array that has a name, or that is in an array with that name. "" is
    for all other arrays.
    """
    reader = _Reader(memoryview(text), most, taken, flat)
    yield from reader.blank()
    found = yield from reader.value((), 0)
    yield from reader.blank()
    if reader.at != len(text):
        reader.fail("trailing characters")
    if isinstance(found, dict):
        found = Long(found)
        found.freed = reader.freed
    return found


class _Reader:
    """A text, and the position up to which it has been read."""

    def __init__(self, text: memoryview, most: Mapping[str, int], taken: Mapping[str, Take], flat: str | None) -> None:
        self.text = text
        self.at = 0
        self.freed = FreedInSlices()
        self._most = most
        self._taken = taken
        self._flat = flat
        self._nested = 0

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
        self.freed.add(found)
        self._count(1)
        freed, nested = self.freed, self._nested
        count = 0
        self.at += 1
        more = True
        while more:
            if take is not None:
                self.freed, self._nested = FreedInSlices(), nested
            part, more = self._whole(b"[", b"]", empty=not count)
            short = part is not None
            if part is None:
                part = [(yield from self.value((*place, count), depth + 1))]
                more = yield from self._comma(b"]")
            if not count and part and isinstance(part[0], list) and place[-1:] == (self._flat,):
                found = Flat()
                self.freed.add(found)
            if isinstance(found, Flat):
                part = _flattened(part, found, place)
            if take is None and short:
                self._count(_nested(part))
            if count + len(part) > most:
                raise Invalid(f"{written_place(place) or 'body'}: at most {most} elements are allowed, got more")
            if take is None:
                found += part
            else:
                for begin in range(0, len(part), TAKEN):
                    yield from take(count + begin, part[begin : begin + TAKEN])
                    yield
            count += len(part)
            del part
            self.freed = freed
            yield
        return found

    def _object(self, place: tuple[str | int, ...], depth: int) -> Slices[dict[str, Any]]:
        found: dict[str, Any] = {}
        self.freed.add(found)
        self._count(1)
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
                self._count(_nested(part.values()))
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

    def _count(self, nested: int) -> None:
        self._nested += nested
        if self._nested > NESTED_MAX:
            raise Invalid(f"body: at most {NESTED_MAX} values in nested arrays and objects are allowed, got more")

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


def _nested(values: Iterable[Any]) -> int:
    """Return the number of lists and objects in the values, and of all values in them."""
    if CONTAINERS.isdisjoint(map(type, values)):
        return 0
    count = 0
    for value in values:
        if type(value) in CONTAINERS:
            count += 1 + len(value) + _nested(value if type(value) is list else value.values())
    return count


def _flattened(part: list[Any], found: Flat, place: tuple[str | int, ...]) -> list[Any]:
    if not all(type(row) is list and row for row in part):
        raise Invalid(f"{written_place(place)}: the elements must be lists that are not empty, as the first one is")
    found.lengths += map(len, part)
    return [*chain.from_iterable(part)]
