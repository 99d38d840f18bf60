"""The routes: each parses, calls one method below, formats."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute

from hinged.service.api import changes, events, examples, inference, labels, models, snapshots, stream
from hinged.service.errors import Invalid, NotFound

PARTS = (
    models.router,
    examples.router,
    labels.router,
    snapshots.router,
    changes.router,
    stream.router,
    events.router,
    inference.router,
)

router = APIRouter()
for part in PARTS:
    router.include_router(part)


QUICK = ("learn", "learn_default", "predict", "predict_default", "offer")


def quick_routes() -> list[APIRoute]:
    """The routes that are reached without FastAPI's routing (service/edge/direct.py)."""
    return [route for part in PARTS for route in part.routes if isinstance(route, APIRoute) and route.name in QUICK]


def unknown_route(path: str) -> NotFound:
    """The error of a path that no route has."""
    return NotFound(f"there is no route {path[:100]!r}; /docs lists them all")


def methods_of(path: str) -> str:
    """The methods that a path has, as the header Allow lists them."""
    routes = [route for part in PARTS for route in part.routes if isinstance(route, APIRoute)]
    return ", ".join(sorted({m for route in routes if route.path_regex.match(path) for m in route.methods or ()}))


def bad_query(problem: dict[str, Any]) -> Invalid:
    """The error of a query string that does not fit."""
    return Invalid(f"{'.'.join(str(p) for p in problem['loc'])}: {problem['msg']}")
