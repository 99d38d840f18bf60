"""What the strings of names are, as the first records show them, where nobody has said it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from typing import TypeAlias

from hinged.service.data.moments import moment_of
from hinged.service.data.records import Record

TIMES_SHARE = 0.95  # of a name's strings that are moments, where all are taken for such
UNIQUE_MIN = 50  # different strings: fewer are categories, however many there are
UNIQUE_SHARE = 0.9  # different ones of a name's strings, where they are taken for those of an identifier

Strings: TypeAlias = Mapping[str, list[str]]
"""The strings of each name, in the order of the records."""


def strings_of(records: Iterable[Record], declared: Container[str]) -> Strings:
    """Those of all names but the declared ones."""
    strings: defaultdict[str, list[str]] = defaultdict(list)
    for record in records:
        for name, value in record.items():
            if type(value) is str and name not in declared:
                strings[name].append(value)
    return strings


def found_times(strings: Strings) -> set[str]:
    """Names whose strings are nearly all days and times."""
    found = set()
    for name, given in strings.items():
        if sum(moment_of(value) is not None for value in given) >= TIMES_SHARE * len(given):
            found.add(name)
    return found


def found_identifiers(strings: Strings) -> dict[str, int]:
    """Names whose strings are nearly all different, and how many different ones there are."""
    found = {name: len(set(given)) for name, given in strings.items()}
    return {name: n for name, n in found.items() if n >= max(UNIQUE_MIN, UNIQUE_SHARE * len(strings[name]))}
