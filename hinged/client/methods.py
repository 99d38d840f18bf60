"""Client methods that need several requests. The methods of `Client` block; the methods of `AsyncClient` return
awaitables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate

from hinged.client.exchange import Exchange
from hinged.operations.base import Answer, Arguments, Method


def route(steps: Callable[Concatenate[Any, Arguments], Exchange[Answer]]) -> Method[Arguments, Answer]:
    """Make a method of both clients from a function that yields the steps of an exchange."""

    @wraps(steps)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        return self._run(steps(self, *args, **named))

    return Method(method)
