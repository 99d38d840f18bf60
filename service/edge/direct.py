"""The short way to the routes that are asked thousands of times a second.

FastAPI tries one route after the other and collects parameters for each call anew, which takes longer than a
prediction. These routes have no parameters but the model's name, so they are found by one look into a dictionary; who
asks is checked, and errors are answered, by the same functions. Whatever is not among them goes on to FastAPI. Small
requests are mostly answered before they come here (shortcut.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hinged.service.edge.access import authorise
from hinged.service.edge.middleware import error_response
from hinged.service.edge.queries import refuse_unknown_query
from hinged.service.errors import ServiceError

MODELS = "/models/{model}/"


def endpoint_of(routes: Mapping[str, APIRoute], scope: Scope) -> tuple[APIRoute, dict[str, str]] | None:
    """Which of some routes, by path, a request is for, and the parameters in its path; None where it is for none."""
    if scope["type"] != "http" or scope["method"] != "POST" or scope["root_path"]:
        return None
    path, parameters = scope["path"], {}
    match path.split("/"):
        case ["", "models", model, what] if model:
            path, parameters = MODELS + what, {"model": model}
    route = routes.get(path)
    return None if route is None else (route, parameters)


class Direct:
    """Answers POST requests to some routes: of a model, or with a path without parameters."""

    def __init__(
        self, routes: Iterable[APIRoute], unforeseen: Callable[[Request, Exception], Awaitable[Response]]
    ) -> None:
        """unforeseen: logs what nobody foresaw, and makes the answer of it."""
        self._unforeseen = unforeseen
        self._by_path = {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int | None:
        """Answer a request and return the status; None, and nothing done, where it is for none of the routes."""
        found = endpoint_of(self._by_path, scope)
        if found is None:
            return None
        route, parameters = found
        if scope["query_string"] and route.dependant.query_params:  # FastAPI reads them
            return None
        scope["route"], scope["path_params"] = route, parameters
        request = Request(scope, receive)
        try:
            await authorise(request)
            refuse_unknown_query(request)
            response = await route.endpoint(**parameters, request=request)
        except ServiceError as error:
            response = error_response(error, scope["path"])
        except Exception as error:  # noqa: BLE001  FastAPI's own net is not around this
            response = await self._unforeseen(request, error)
        await response(scope, receive, send)
        return int(response.status_code)
