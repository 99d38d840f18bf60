"""What an operation is: what a server may be asked, said once for the server and the clients."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import wraps
from types import MethodType, UnionType
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
    overload,
)
from urllib.parse import quote

from hinged.answers import Role

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
Given = ParamSpec("Given")
Told = TypeVar("Told")

DEFAULT = "default"
"""The model of the operations that name none."""
EVERY = "*"
"""All models, of what an operation covers."""
LONG_S = 3600.0
"""Time-out, in seconds, of requests that work until the solver has converged: the usual one would end them."""
Strategy = Literal["active", "random", "gradient", "autoactive"]
BINARY = "application/octet-stream"
METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")
PARAMETER = re.compile(r"{(\w+)(?::path)?}")
"""A part of a path that is named by who asks; `:path` may contain slashes."""


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request, and how to read its answer. Method and path come from its operation.

    body  a JSON object, or bytes
    named  parts of the path that are not the arguments of these names
    once  whether a second try is never safe
    gone  the answer where a second try finds nothing there any more: the first did it, and its answer was lost
    """

    body: Mapping[str, Any] | bytes | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    part: str | None = None  # of the answer, where not all of it is wanted
    text: bool = False  # the answer is no JSON
    binary: bool = False  # nor text
    media_type: str = BINARY  # of a body of bytes
    timeout_s: float | None = None
    once: bool = False
    gone: Mapping[str, Any] | None = None
    method: str = "GET"
    path: str = ""


class Asker:
    """Who asks: what the methods of a client stand on."""

    def _ask(self, call: Call[Any]) -> Any:
        """What a call is answered, or an awaitable of it. For operations; what users see are their methods."""
        raise NotImplementedError


class Blocking(Asker):
    """A client whose methods return the answer."""


class Awaiting(Asker):
    """A client whose methods return an awaitable of the answer."""


class Method(Generic[Arguments, Answer]):
    """A method of both clients: one returns the answer, the other an awaitable of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @overload
    def __get__(self, asker: Blocking, owner: Any) -> Callable[Arguments, Answer]: ...
    @overload
    def __get__(self, asker: Awaiting, owner: Any) -> Callable[Arguments, Coroutine[Any, Any, Answer]]: ...
    @overload
    def __get__(self, asker: None, owner: Any) -> Self: ...
    def __get__(self, asker: Any, owner: Any) -> Any:
        """A function of the clients as any other; the method itself where it is declared."""
        if asker is not None:
            return MethodType(self._function, asker)
        return self._function if issubclass(owner, Asker) else self

    def __call__(self, asker: Any, /, *args: Arguments.args, **named: Arguments.kwargs) -> Any:
        """The same for a client that is given."""
        return self._function(asker, *args, **named)


@dataclass(eq=False, repr=False)
class Operation(Method[Arguments, Answer]):
    """What may be asked of a server: where, by whom, and by which of the ways that a request can take.

    role  the least one that may use it; None: anyone, without a key
    covers  the model that a key must be for where the path names none; None: any key will do
    basic  whether the key may also come as the password of `Authorization: Basic`
    frame  the `op` of frames that ask for the same on a model's WebSocket
    small  whether small requests are gathered, and may be answered by the connection that they come over
    replicas  whether a process that only follows the model may answer
    probe  whether it tells nothing but whether the server is well, so that it may be asked under any name of the server
    anywhere  whether it is about the server that is asked, though the path names a model: others send it to its owner

    ValueError for a declaration that cannot be meant.
    """

    method: str
    path: str
    _: KW_ONLY
    role: Role | None
    covers: str | None = None
    basic: bool = False
    frame: str | None = None
    small: bool = False
    replicas: bool = False
    probe: bool = False
    anywhere: bool = False
    steps: Callable[..., Call[Any]] | None = None

    def __post_init__(self) -> None:
        method, path, role, steps = self.method, self.path, self.role, self.steps
        self.parameters = tuple(PARAMETER.findall(path))
        if method not in METHODS:
            raise ValueError(f"{method} {path}: a method is one of {', '.join(METHODS)}")
        if not path.startswith("/"):
            raise ValueError(f"{method} {path}: a path begins with a slash")
        if role is not None and role not in get_args(Role):
            raise ValueError(f"{method} {path}: a role is one of {', '.join(get_args(Role))}, or None, got {role!r}")
        if (self.small or self.replicas) and (method != "POST" or set(self.parameters) - {"model"}):
            raise ValueError(f"{method} {path}: what takes a quick way is a POST with no parameter but the model")
        if steps is not None:
            self._signature = inspect.signature(steps)
            missing = set(self.parameters) - set(self._signature.parameters)
            if missing:
                raise ValueError(f"{method} {path}: {steps.__qualname__} takes no {', '.join(sorted(missing))}")
            super().__init__(wraps(steps)(lambda asker, /, *args, **named: asker._ask(self.call(*args, **named))))  # noqa: SLF001

    def __repr__(self) -> str:
        return f"Operation({self.method} {self.path})"

    def asked(self, steps: Callable[Concatenate[Any, Given], Call[Told]]) -> Operation[Given, Told]:
        """Declare it as the method of the clients that asks for it.

        The arguments of that method are the parts of the path by name, and what it returns is the rest of the request.
        """
        return cast("Operation[Given, Told]", replace(self, steps=steps))

    def call(self, /, *args: Arguments.args, **named: Arguments.kwargs) -> Call[Answer]:
        """The request that a client sends for these arguments."""
        assert self.steps is not None, self  # noqa: S101  it was declared with what a client does
        call = self.steps(None, *args, **named)
        given = self._signature.bind(None, *args, **named).arguments | dict(call.named)
        return replace(call, method=self.method, path=self.path_for(**{name: given[name] for name in self.parameters}))

    def answer(self) -> Any:
        """The type of what is answered, as the method says it, where nothing was done before; None without a method."""
        if self.steps is None:
            return None
        (told,) = get_args(get_type_hints(self.steps)["return"])
        return get_args(told)[0] if isinstance(told, UnionType) else told

    def path_for(self, **named: str) -> str:
        """The path with its parameters filled in."""
        return PARAMETER.sub(lambda found: quote(named[found[1]], safe=""), self.path)
