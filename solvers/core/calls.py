"""What compiled functions call, and with which types: found by running them uncompiled (NUMBA_DISABLE_JIT).

A call whose callees are compiled is compiled quickly, and calls that need nothing of each other can be compiled at the
same time by several processes (crew.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar, cast

from numba import typeof

F = TypeVar("F", bound=Callable[..., Any])

LOOKED_AT = 8  # calls of a function whose types are looked at, which takes longer than most calls
LOCAL = "<locals>"  # in the name of a function that no module holds


@dataclass
class Call:
    """A function and the types that it is called with; needs: numbers of the calls that it makes itself.

    inner: by another one, not from outside (inner.py).
    """

    module: str
    name: str
    types: tuple[Any, ...]
    inner: bool
    size: int
    needs: set[int] = field(default_factory=set)


class Calls:
    """What is called."""

    def __init__(self) -> None:
        self._found: list[Call] = []
        self._order: list[int] = []  # of what was told: numbers in _found
        self._numbers: dict[tuple[str, str, tuple[Any, ...], bool], int] = {}
        self._looked: Counter[Any] = Counter()
        self._under_way: list[set[int]] = []  # the needs of each call that has not returned

    def look_again(self) -> None:
        """Look at every function as if it had not been called yet; what was found stays."""
        self._looked.clear()

    def told(self) -> list[Call]:
        """What was called so far, each behind all that it calls; what was told before stands first, as it was."""
        placed = set(self._order)
        for number in range(len(self._found)):
            self._place(number, placed)
        at = {number: place for place, number in enumerate(self._order)}
        found = [self._found[number] for number in self._order]
        # What a call that was told before needs by now is compiled with it.
        needs = [{at[needed] for needed in call.needs} for call in found]
        return [replace(call, needs={n for n in needs[i] if n < i}) for i, call in enumerate(found)]

    def _place(self, number: int, placed: set[int]) -> None:
        if number not in placed:
            placed.add(number)
            for needed in sorted(self._found[number].needs):
                self._place(needed, placed)
            self._order.append(number)

    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function, and look at how."""
        inner = bool(self._under_way)
        self._looked[function, inner] += 1
        looks = self._looked[function, inner] <= LOOKED_AT and LOCAL not in function.__qualname__
        types = tuple(typeof(arg) for arg in args) if looks else ()
        needs: set[int] = set()
        self._under_way.append(needs)
        try:
            answer = function(*args)
        finally:
            self._under_way.pop()
        if not looks:
            return answer
        name = function.__module__, function.__qualname__, types, inner
        number = self._numbers.setdefault(name, len(self._found))
        if number == len(self._found):
            self._found.append(Call(*name, size=len(function.__code__.co_code)))
        self._found[number].needs |= needs
        if inner:
            self._under_way[-1].add(number)
        return answer


watching: list[Calls] = []
"""Who looks at calls, if anybody does."""


def watched(function: F) -> F:
    """A function whose calls are looked at while somebody does."""

    @wraps(function)
    def call(*args: Any) -> Any:
        return watching[-1].run(function, args) if watching else function(*args)

    return cast("F", call)
