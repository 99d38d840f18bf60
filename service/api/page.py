"""Routes for the browser pages, and the links at `/`. The pages contain no data of models, so they need no key."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from hinged.operations.base import Operation
from hinged.service.api.serving import Group
from hinged.service.data.answers import Answer
from hinged.service.errors import NotFound
from hinged.service.page.files import HEADERS, files

PAGE, DOCS = "index.html", "docs.html"
LINKS = {
    "page": "/ui",
    "docs": "/docs",
    "openapi": "/openapi.json",
    "models": "/models",
    "ready": "/readyz",
    "metrics": "/metrics",
}

group = Group()


@group.serves(Operation("GET", "/", role=None))
async def root(request: Request) -> Answer | Response:
    """Redirect a browser to the page; give a program links to the routes."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("ui")
    return {"name": request.app.title, "version": request.app.version, **LINKS}


@group.serves(Operation("GET", "/ui", role=None))
async def page(request: Request) -> Response:
    """Return the page on which people watch and label."""
    return await _file(request, PAGE)


@group.serves(Operation("GET", "/docs", role=None))
async def docs(request: Request) -> Response:
    """Return the page that describes the routes."""
    return await _file(request, DOCS)


@group.serves(Operation("GET", "/ui/", role=None))
@group.serves(Operation("GET", "/docs/", role=None))
async def without_slash(request: Request) -> Response:
    """Redirect to the path without a slash. The page uses relative links, so it needs exactly one path."""
    return RedirectResponse(f"../{request.url.path.strip('/').rpartition('/')[2]}")


@group.serves(Operation("GET", "/ui/{path:path}", role=None))
async def page_file(path: str, request: Request) -> Response:
    """Return a file of one of the two pages."""
    return await _file(request, path)


async def _file(request: Request, path: str) -> Response:
    file = (await asyncio.to_thread(files)).get(path)
    if file is None:
        raise NotFound(f"the page has no file {path[:100]!r}")
    headers = {**HEADERS, "ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if file.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.zipped, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.body, media_type=file.media_type, headers=headers)
