"""The routes: each parses, calls one method below, formats.

A folder for each kind, with its `routes` and the `shapes` of what they take and answer: types, each with an example
that can be sent, for the OpenAPI document. The types of the answers are those of hinged.answers.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute

from hinged.service.api.answers.routes import router as answers_routes
from hinged.service.api.changes.routes import router as changes_routes
from hinged.service.api.cluster.routes import router as cluster_routes
from hinged.service.api.examples.routes import router as examples_routes
from hinged.service.api.inference.routes import router as inference_routes
from hinged.service.api.labels.routes import router as labels_routes
from hinged.service.api.labelstudio.routes import router as labelstudio_routes
from hinged.service.api.models.routes import router as models_routes
from hinged.service.api.page.routes import router as page_routes
from hinged.service.api.server.routes import router as server_routes
from hinged.service.api.snapshots.routes import router as snapshots_routes
from hinged.service.api.streams.routes import router as streams_routes
from hinged.service.errors import Invalid, NotFound

PARTS = (
    server_routes,
    models_routes,
    examples_routes,
    labels_routes,
    answers_routes,
    snapshots_routes,
    changes_routes,
    streams_routes,
    inference_routes,
    labelstudio_routes,
    cluster_routes,
    page_routes,
)

router = APIRouter()
for part in PARTS:
    router.include_router(part)


QUICK = ("learn", "learn_default", "predict", "predict_default", "offer")


def quick_routes(names: Container[str] = QUICK) -> list[APIRoute]:
    """The routes that are reached without FastAPI's routing (service/edge/direct.py)."""
    return [route for part in PARTS for route in part.routes if isinstance(route, APIRoute) and route.name in names]


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
