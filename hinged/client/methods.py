"""A method of both clients that takes several requests: `Client` returns its answer, `AsyncClient` awaits it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate

from hinged.client.exchange import Exchange
from hinged.operations.base import Answer, Arguments, Method


def route(steps: Callable[Concatenate[Any, Arguments], Exchange[Answer]]) -> Method[Arguments, Answer]:
    """The method of the clients that runs these steps, each client in its own way."""

    @wraps(steps)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        return self._run(steps(self, *args, **named))

    return Method(method)
