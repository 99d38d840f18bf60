"""A client for the part of Label Studio's API that lists annotations.

The client asks only the address in the settings, never an address from a request. The client treats a redirect as an
error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hinged.service.api.labelstudio.shapes import BACKENDS, PROJECT, TASKS_PAGE, Project, TasksPage
from hinged.service.api.wire import parsed
from hinged.service.errors import Invalid, ServiceError

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 60.0
PAGE_TASKS = 100
ANNOTATED = {
    "filters": {
        "conjunction": "or",
        "items": [
            {"filter": f"filter:tasks:{kind}_annotations", "operator": "greater", "type": "Number", "value": 0}
            for kind in ("total", "cancelled")
        ],
    }
}
"""Filter that selects the tasks that were annotated or skipped."""


class LabelStudioFailed(ServiceError):
    """Label Studio gave an unexpected answer, or none, when the server asked for annotations."""

    code = "labelstudio_failed"
    status = 502


class Studio:
    """Sends requests to Label Studio as one of its users. Raises LabelStudioFailed after an unexpected answer, or none.

    token: either a lasting ("legacy") token, or a personal access token with which the client obtains short-lived
    tokens.
    """

    def __init__(self, url: str, token: str, bytes_max: int) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._bytes_max = bytes_max
        self._http: httpx.AsyncClient | None = None
        self._authorization = ""

    async def open(self) -> None:
        """Connect. Call this before the first request."""
        self._http = await asyncio.to_thread(_client)
        await self._authorize()

    async def close(self) -> None:
        """Disconnect. Call this after the last request."""
        if self._http is not None:
            await self._http.aclose()

    async def project(self, project: int) -> Project:
        """Return a project with its labelling configuration."""
        found: Project = await self._read(PROJECT, f"/api/projects/{project}/")
        return found

    async def connected(self, project: int, model: str) -> bool:
        """Return whether this model is connected to the project."""
        backends = await self._read(BACKENDS, "/api/ml/", project=project)
        ends = f"/labelstudio/models/{model}"
        return any(urlsplit(backend["url"]).path.rstrip("/").endswith(ends) for backend in backends)

    async def pages(self, project: int) -> AsyncIterator[TasksPage]:
        """Yield the pages of the project's tasks that have annotations. A task may appear twice.

        If tasks are deleted meanwhile, other tasks move to pages that were already read. In this case, all pages are
        read again.
        """
        more = {"project": project, "page_size": PAGE_TASKS, "fields": "all", "query": json.dumps(ANNOTATED)}
        again = True
        while again:
            again, seen, page, total = False, 0, 0, 0
            while page == 0 or seen < total:
                page += 1
                found: TasksPage = await self._read(TASKS_PAGE, "/api/tasks/", page=page, **more)
                yield found
                again = again or found["total"] < total
                seen, total = seen + len(found["tasks"]), found["total"]
                if not found["tasks"]:
                    break

    async def is_deleted(self, annotation: int) -> bool:
        """Return whether the annotation does not exist. A 404 counts only if its body comes from Label Studio, because
        a proxy may answer 404, too.
        """
        path = f"/api/annotations/{annotation}/"
        status, body = await self._get(path)
        if status == HTTPStatus.NOT_FOUND and _json(body).get("status_code") == HTTPStatus.NOT_FOUND:
            return True
        self._check(path, status)
        return False

    async def _read(self, shape: Any, path: str, **query: Any) -> Any:
        status, body = await self._get(path, **query)
        self._check(path, status)
        try:
            return await asyncio.to_thread(parsed, shape, body)
        except Invalid:
            raise self._failed(f"{path} gave an answer that is not Label Studio's") from None

    async def _get(self, path: str, **query: Any) -> tuple[int, bytes]:
        """Return the status and the body of an answer. If a short-lived token has expired, get a new token and ask once
        more.
        """
        status, body = await self._send("GET", path, params=query)
        if status == HTTPStatus.UNAUTHORIZED and self._lasts_shortly:
            await self._authorize()
            status, body = await self._send("GET", path, params=query)
        return status, body

    @property
    def _lasts_shortly(self) -> bool:
        return self._token.count(".") == 2  # a JSON Web Token

    async def _authorize(self) -> None:
        if not self._lasts_shortly:
            self._authorization = f"Token {self._token}"
            return
        path = "/api/token/refresh/"
        status, body = await self._send("POST", path, json={"refresh": self._token})
        self._check(path, status)
        access = _json(body).get("access")
        if not isinstance(access, str):
            raise self._failed(f"{path} gave an answer that is not Label Studio's")
        self._authorization = f"Bearer {access}"

    async def _send(self, method: str, path: str, **request: Any) -> tuple[int, bytes]:
        import httpx  # noqa: PLC0415  _client has imported it

        assert self._http is not None  # noqa: S101  open() was called
        headers = {"authorization": self._authorization} if self._authorization else {}
        try:
            async with self._http.stream(method, self._url + path, headers=headers, **request) as answer:
                content = bytearray()
                async for piece in answer.aiter_bytes():
                    content += piece
                    if len(content) > self._bytes_max:
                        raise self._failed(f"{path} gave an answer of more than {self._bytes_max} bytes")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(f"{path}: {str(error) or type(error).__name__}") from None
        return answer.status_code, bytes(content)

    def _check(self, path: str, status: int) -> None:
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise self._failed(f"{path} answered {status}: HINGED_LABELSTUDIO_TOKEN belongs to no user who may see it")
        if status != HTTPStatus.OK:
            raise self._failed(f"{path} answered {status}")

    def _failed(self, reason: str) -> LabelStudioFailed:
        return LabelStudioFailed(f"Label Studio at {self._url}: {reason}")


def _client() -> httpx.AsyncClient:
    """Return an HTTP client. That takes a quarter of a second, so it is called on a thread. Few servers need it."""
    import httpx  # noqa: PLC0415

    return httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)


def _json(body: bytes) -> dict[str, Any]:
    """Return a JSON object. Return an empty object if the body is not a JSON object."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
