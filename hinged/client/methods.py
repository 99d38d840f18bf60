"""A method of both clients, written once and typed for each: `Client` returns its answer, `AsyncClient` awaits it."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from hinged.client.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hinged.client.client import AsyncClient, Client

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class Route(Generic[Parameters, Answer]):
    """A method of both clients, as a type checker sees it: one returns the answer, the other an awaitable of it."""

    @overload
    def __get__(self, client: Client, owner: type[Client]) -> Callable[Parameters, Answer]: ...
    @overload
    def __get__(
        self, client: AsyncClient, owner: type[AsyncClient]
    ) -> Callable[Parameters, Coroutine[Any, Any, Answer]]: ...
    @overload
    def __get__(self, client: None, owner: Any) -> Callable[Concatenate[Any, Parameters], Any]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        """A function, in truth, that is bound as any other."""
        raise NotImplementedError


def route(steps: Callable[Concatenate[Any, Parameters], Exchange[Answer]]) -> Route[Parameters, Answer]:
    """The method of the clients that runs these steps, each client in its own way."""

    @wraps(steps)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        return self._run(steps(self, *args, **named))

    return cast("Route[Parameters, Answer]", method)
