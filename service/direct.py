"""The short way to the routes that are asked thousands of times a second.

FastAPI tries one route after the other and collects parameters for each call anew, which takes longer than a prediction.
These routes have no parameters but the model's name, so they are found by one look into a dictionary; who asks is
checked, and errors are answered, by the same functions. Whatever is not among them goes on to FastAPI.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access import authorise
from service.edge import error_response
from service.errors import ServiceError

MODELS = "/models/{model}/"


class Direct:
    """ASGI middleware that answers POST requests to some routes: of a model, or with a path without parameters."""

    def __init__(self, app: ASGIApp, routes: Iterable[APIRoute]) -> None:
        self.app = app
        self._by_path = {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["root_path"]:
            path, parameters = scope["path"], {}
            match path.split("/"):
                case ["", "models", model, what] if model:
                    path, parameters = MODELS + what, {"model": model}
            route = self._by_path.get(path)
            if route is not None:
                scope["route"], scope["path_params"] = route, parameters
                request = Request(scope, receive)
                try:
                    await authorise(request)
                    response = await route.endpoint(**parameters, request=request)
                except ServiceError as error:
                    response = error_response(error, scope["path"])
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)
