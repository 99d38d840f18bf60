"""Connect each operation (hinged/operations) to its handler and to the checks that a request must pass first."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from fastapi.dependencies.utils import request_params_to_args
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketState

from hinged.operations.base import Operation
from hinged.service.api.dispatch import Brought, Dispatch, Handling, Packed
from hinged.service.api.openapi import RouteForm, operation_id
from hinged.service.api.whole import PutTogether
from hinged.service.api.wire import read_body, read_examples, registry_of
from hinged.service.data.answers import Answer
from hinged.service.data.problems import NAME_CHARS_MAX, meant
from hinged.service.edge.access import authorise, caller
from hinged.service.edge.middleware import JSON, error_response
from hinged.service.edge.refusals import OTHERS, Refusal
from hinged.service.engine.worker import Worker
from hinged.service.errors import Invalid, ServiceError, foreseen

Handler = TypeVar("Handler", bound=Callable[..., Any])

OF_A_MODEL = "/models/{model}/"


class Route(APIRoute):
    """A route that answers an operation over HTTP.

    FastAPI describes the route and parses its query. No layer of FastAPI wraps the handler. A handler with a parameter
    `worker` gets the model of the path, and a handler with a parameter `body` gets the checked body of a command.
    """

    def __init__(
        self,
        operation: Operation[..., Any],
        handler: Callable[..., Any],
        handling: Handling | None,
        put_together: PutTogether | None,
        form: RouteForm,
        tag: str,
    ) -> None:
        if handling is None and (operation.small or (operation.frame and operation.method == "POST")):
            raise ValueError(f"{operation} can be requested in several ways: declare handling=")
        super().__init__(
            operation.path,
            handler,
            methods=[operation.method],
            generate_unique_id_function=operation_id,
            response_model=None,
            tags=[tag],
            include_in_schema=bool(tag),
        )
        if tag and form.answers is None and operation.steps is None:
            raise ValueError(f"{operation} is no method of the clients: declare answers=")
        self.operation, self.handling, self.put_together, self.form = operation, handling, put_together, form
        self.app = self.answer
        taken, dependant = inspect.signature(handler).parameters, self.dependant
        self._takes_request, self._takes_worker, self._takes_body = (n in taken for n in ("request", "worker", "body"))
        self._named = [name for name in operation.parameters if name in taken]
        self._known = [parameter.alias for parameter in dependant.query_params]
        asked = [*dependant.query_params, *dependant.header_params]
        self._always_read = any(p.field_info.is_required() for p in asked) or bool(dependant.header_params)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, if necessary with an error. Callers need not catch any exception of the route."""
        request = Request(scope, receive, send)
        try:
            response = await self.respond(request)
        except Exception as error:  # noqa: BLE001  unexpected errors are logged
            response = error_response(foreseen(error), scope["path"])
        await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        """Return the handler's answer, or raise the error that refuses the request."""
        authorise(request, self.operation)
        refuse_unknown_query(request, self.operation, self._known)
        named = {name: request.scope["path_params"][name] for name in self._named}
        if self._takes_request:
            named["request"] = request
        if self._always_read or (self._known and request.scope["query_string"]):
            named |= self._read(request)
        if self._takes_worker:
            named["worker"] = registry_of(request).get(request.scope["path_params"]["model"])
        if self._takes_body and self.form.takes is not None:
            named["body"] = await read_body(request, self.form.takes.adapter, optional=self.form.optional)
        found: Answer | Response = await self.endpoint(**named)
        return found if isinstance(found, Response) else JSON(found)

    def _read(self, request: Request) -> dict[str, Any]:
        """Return the query parameters and headers that the handler takes. Raise Invalid."""
        query, bad = request_params_to_args(self.dependant.query_params, request.query_params)
        headers, worse = request_params_to_args(self.dependant.header_params, request.headers)
        for problem in (*bad, *worse):
            raise Invalid(f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}")
        return query | headers


class Socket(WebSocketRoute):
    """A route that opens a WebSocket."""

    def __init__(self, operation: Operation[..., Any], handler: Callable[..., Any]) -> None:
        super().__init__(operation.path, handler)
        self.operation = operation
        self.app = self.open

    async def open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open the WebSocket, or answer the handshake with an error in the usual shape."""
        socket = WebSocket(scope, receive, send)
        try:
            authorise(socket, self.operation)
            refuse_unknown_query(socket, self.operation, ())
            await self.endpoint(**scope["path_params"], socket=socket)
        except ServiceError as error:
            if socket.application_state is not WebSocketState.CONNECTING:
                raise
            await socket.send_denial_response(error_response(error))


class Group:
    """The routes of one kind.

    tag: the section of the OpenAPI document that lists the routes. The document does not list routes without a tag.
    below, refusal: the first part of the paths, and the shape of the errors. Only routes of another protocol have these
    two.
    state: functions that make the objects that a server keeps for these routes, by their names in `app.state`.
    """

    def __init__(
        self,
        tag: str = "",
        *,
        below: str = "",
        refusal: Refusal | None = None,
        state: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self.routes: list[Route | Socket] = []
        self.state = state or {}
        self._tag = tag
        if refusal is not None:
            OTHERS[below] = refusal

    def serves(
        self,
        operation: Operation[..., Any],
        *errors: type[ServiceError],
        handling: Handling | None = None,
        put_together: PutTogether | None = None,
        tag: str | None = None,
        **form: Any,
    ) -> Callable[[Handler], Handler]:
        """Declare a handler for an operation.

        errors, form: see `RouteForm`.
        handling: how bodies are parsed, if the operation can be requested in several ways.
        put_together: joins the answers of several processes, if the operation concerns the whole server.
        """

        def served(handler: Handler) -> Handler:
            described = RouteForm(errors, **form)
            self.routes.append(Route(operation, handler, handling, put_together, described, tag or self._tag))
            return handler

        return served

    def opens(self, operation: Operation[..., Any]) -> Callable[[Handler], Handler]:
        """Declare a handler that opens a WebSocket."""

        def opened(handler: Handler) -> Handler:
            self.routes.append(Socket(operation, handler))
            return handler

        return opened


class Found(NamedTuple):
    """A route, and the values of its path parameters."""

    route: Route
    parameters: dict[str, str]


class RouteTable:
    """All routes. Raises ValueError if two routes serve the same requests, or if a declared operation has no route."""

    def __init__(self, groups: list[Group], declared: list[Operation[..., Any]]) -> None:
        self.all = [route for group in groups for route in group.routes]
        self.state = {name: make for group in groups for name, make in group.state.items()}
        """Functions that make the objects that a server keeps for its routes, by the names of the objects in
        `app.state`.
        """
        self.probes = frozenset(route.path for route in self.all if route.operation.probe)
        self.of_all = {
            route.path: (route.operation, route.put_together)
            for route in self.all
            if isinstance(route, Route) and route.put_together is not None
        }
        """Operations on the whole server, by path, with the function that joins the answers of the processes."""
        operations = [route.operation for route in self.all]
        missing = [operation for operation in declared if operation not in operations]
        if missing:
            raise ValueError(f"no route serves {missing[0]}")
        self.described = [route for route in self.all if isinstance(route, Route)]
        """The HTTP routes, which the OpenAPI document describes."""
        self._by_path: dict[tuple[str, str], Route] = {}
        for route in self.described:
            if self._by_path.setdefault((route.operation.method, route.path), route) is not route:
                raise ValueError(f"two routes serve {route.operation.method} {route.path}")

    def handlings(self) -> dict[Operation[..., Any], Handling]:
        """Return how bodies are parsed for each operation that can be requested in several ways."""
        return {route.operation: route.handling for route in self.described if route.handling is not None}

    def find(self, method: str, path: str) -> Found | None:
        """Return the route of a request if a single dictionary look-up finds the route. Return None if the router must
        search for the route.
        """
        route = self._by_path.get((method, path))
        if route is not None and not route.operation.parameters:
            return Found(route, {})
        match path.split("/"):
            case ["", "models", model, what] if model and what:
                route = self._by_path.get((method, OF_A_MODEL + what))
                return None if route is None or "{" in what else Found(route, {"model": model})
        return None

    def methods_of(self, path: str) -> str:
        """Return the methods of a path, in the format of the Allow header."""
        found = {route.operation.method for route in self.described if route.path_regex.match(path)}
        return ", ".join(sorted(found))


async def dispatched(request: Request, operation: Operation[..., Any], worker: Worker, body: Brought) -> Answer:
    """Return a model's answer to a body that came over HTTP."""
    dispatch: Dispatch = request.app.state.dispatch
    return await dispatch(operation, caller(request), worker, body)


async def examples_dispatched(request: Request, operation: Operation[..., Any], model: str) -> Response:
    """Return a model's answer to the examples of a request, whether they are JSON or rows as bytes."""
    registry = registry_of(request)
    worker = registry.get(model)
    data, packed = await read_examples(request, registry.settings.body_bytes_max)
    return JSON(await dispatched(request, operation, worker, Packed(data) if packed else data))


def refuse_unknown_query(connection: HTTPConnection, operation: Operation[..., Any], known: Collection[str]) -> None:
    """Raise Invalid for an unknown parameter, because the client expected it to have an effect.

    Public operations, for example probes and files, accept any parameter.
    """
    if not connection.scope["query_string"] or operation.role is None:
        return
    for name in connection.query_params:
        if name not in known and name != "ticket":
            hint = meant(name, known) or "; this route has none"
            raise Invalid(f"unknown query parameter {name[:NAME_CHARS_MAX]!r}{hint}")
