"""The operation: a declaration that the server and both clients share."""

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
"""The model that operations without a model in their path use."""
EVERY = "*"
"""The value of `covers` that means all models."""
LONG_S = 3600.0
"""Timeout, in seconds, for requests that may run until the solver has converged. The usual timeout would be too short
for such requests.
"""
Strategy = Literal["active", "random", "gradient", "autoactive"]
BINARY = "application/octet-stream"
ROWS_TYPE = "application/vnd.hinged.batch"
"""Media type of rows of numbers as bytes (docs/reference/http.md, "Rows as bytes")."""
METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")
PARAMETER = re.compile(r"{(\w+)(?::path)?}")
"""Pattern of a parameter in a path. The caller gives its value. The value of a `:path` parameter may contain
slashes.
"""
NO_SEGMENTS = frozenset({"", ".", ".."})
"""Values that no parameter of a path may have. HTTP clients shorten a path with such a segment (RFC 3986, section
5.2.4), so `DELETE /models/m/examples/..` would delete the model."""


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request, and how to read its answer. The method and the path come from the operation.

    body: a JSON object, or bytes.
    named: the values of path parameters that are not arguments of the method with the same names.
    once: whether the request must never be retried, because a retry is not safe.
    gone: the answer if a retry finds that the object no longer exists. In this case the first try succeeded, but its
    answer was lost.
    """

    body: Mapping[str, Any] | bytes | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    part: str | None = None  # the part of the answer to return; None: the whole answer
    text: bool = False  # the answer is text, not JSON
    binary: bool = False  # the answer is bytes
    media_type: str = BINARY  # media type of a body of bytes
    timeout_s: float | None = None
    once: bool = False
    gone: Mapping[str, Any] | None = None
    method: str = "GET"
    path: str = ""


class Asker:
    """The base class of the clients. The methods of operations send their requests through it."""

    def _ask(self, call: Call[Any]) -> Any:
        """Send a call. Return its answer, or an awaitable of the answer. Operations call this method. Users call the
        methods of the operations.
        """
        raise NotImplementedError


class Blocking(Asker):
    """A client whose methods return the answer."""


class Awaiting(Asker):
    """A client whose methods return an awaitable of the answer."""


class Method(Generic[Arguments, Answer]):
    """A method of both clients: one client returns the answer, the other an awaitable of the answer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @overload
    def __get__(self, asker: Blocking, owner: Any) -> Callable[Arguments, Answer]: ...
    @overload
    def __get__(self, asker: Awaiting, owner: Any) -> Callable[Arguments, Coroutine[Any, Any, Answer]]: ...
    @overload
    def __get__(self, asker: None, owner: Any) -> Self: ...
    def __get__(self, asker: Any, owner: Any) -> Any:
        """Return a bound method of a client. On the class that declares it, return the Method itself."""
        if asker is not None:
            return MethodType(self._function, asker)
        return self._function if issubclass(owner, Asker) else self

    def __call__(self, asker: Any, /, *args: Arguments.args, **named: Arguments.kwargs) -> Any:
        """Call the method for a given client."""
        return self._function(asker, *args, **named)


@dataclass(eq=False, repr=False)
class Operation(Method[Arguments, Answer]):
    """A declared operation of a server: its path, the keys that may use it, and the ways by which a request may come.

    role: the lowest role that may use the operation. None: anyone, without a key.
    covers: the model that a key must cover if the path names no model. None: any key is sufficient.
    basic: whether the key may also be sent as the password of `Authorization: Basic`.
    frame: the `op` of frames that ask for this operation on a model's WebSocket.
    small: whether small requests may be processed together, and answered by the connection on which they come.
    replicas: whether a process that only follows the model may answer.
    probe: whether the operation only reports that the server is well. A probe may be requested under any host name.
    anywhere: whether the operation concerns the server that receives the request, although the path names a model.
    If not, a server forwards the request to the owner of the model.

    Raises ValueError for an invalid declaration.
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
            raise ValueError(f"{method} {path}: the method must be one of {', '.join(METHODS)}")
        if not path.startswith("/"):
            raise ValueError(f"{method} {path}: the path must begin with a slash")
        if role is not None and role not in get_args(Role):
            raise ValueError(
                f"{method} {path}: the role must be one of {', '.join(get_args(Role))}, or None, got {role!r}"
            )
        if (self.small or self.replicas) and (method != "POST" or set(self.parameters) - {"model"}):
            raise ValueError(f"{method} {path}: small and replicas are for a POST with no path parameter but the model")
        if steps is not None:
            self._signature = inspect.signature(steps)
            missing = set(self.parameters) - set(self._signature.parameters)
            if missing:
                raise ValueError(f"{method} {path}: {steps.__qualname__} takes no {', '.join(sorted(missing))}")
            super().__init__(wraps(steps)(lambda asker, /, *args, **named: asker._ask(self.call(*args, **named))))  # noqa: SLF001

    def __repr__(self) -> str:
        return f"Operation({self.method} {self.path})"

    def asked(self, steps: Callable[Concatenate[Any, Given], Call[Told]]) -> Operation[Given, Told]:
        """Make a method of the clients from a function that returns the request.

        The method's arguments include the parameters of the path by name. The function returns the other parts of the
        request.
        """
        return cast("Operation[Given, Told]", replace(self, steps=steps))

    def call(self, /, *args: Arguments.args, **named: Arguments.kwargs) -> Call[Answer]:
        """Return the request that a client sends for these arguments."""
        assert self.steps is not None, self  # noqa: S101  only an operation with a method of the clients is called
        call = self.steps(None, *args, **named)
        given = self._signature.bind(None, *args, **named).arguments | dict(call.named)
        return replace(call, method=self.method, path=self.path_for(**{name: given[name] for name in self.parameters}))

    def answer(self) -> Any:
        """Return the type of the answer to a first try, from the annotation of the method. Return None without a
        method.
        """
        if self.steps is None:
            return None
        (told,) = get_args(get_type_hints(self.steps)["return"])
        return get_args(told)[0] if isinstance(told, UnionType) else told

    def path_for(self, **named: str) -> str:
        """Return the path, with values for its parameters. Raise ValueError for a value with which the path would be
        another path.
        """
        for name, value in named.items():
            if value in NO_SEGMENTS:
                raise ValueError(f"{name} must be a name that a URL can contain, got {value!r}")
        return PARAMETER.sub(lambda found: quote(named[found[1]], safe=""), self.path)
