"""Label Studio's own API, as much of it as tells which annotations there are.

It is asked at the address of the settings alone, never at one that a request names; a redirect is an error. Reading
blocks, and belongs on a thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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
"""Tasks that have an annotation, or were skipped."""


class LabelStudioFailed(ServiceError):
    """Label Studio, which was asked for its annotations, does not answer as it should."""

    code = "labelstudio_failed"
    status = 502


class Studio:
    """A Label Studio, asked as one of its users; LabelStudioFailed where it does not answer as it should.

    token: one that lasts ("legacy"), or a personal access token, which is good for short ones.
    """

    def __init__(self, url: str, token: str, bytes_max: int) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._bytes_max = bytes_max
        self._http: httpx.Client | None = None
        self._authorization = ""

    def open(self) -> None:
        """Before it is asked anything."""
        import httpx  # noqa: PLC0415  a quarter of a second, which only who asks Label Studio has to wait for

        self._http = httpx.Client(timeout=TIMEOUT_S, follow_redirects=False)
        self._authorize()

    def close(self) -> None:
        """When all has been asked."""
        if self._http is not None:
            self._http.close()

    def project(self, project: int) -> Project:
        """How a project is labelled."""
        found: Project = self._read(PROJECT, f"/api/projects/{project}/")
        return found

    def connected(self, project: int, model: str) -> bool:
        """Whether this model is one of the project's."""
        backends = self._read(BACKENDS, "/api/ml/", project=project)
        ends = f"/labelstudio/models/{model}"
        return any(urlsplit(backend["url"]).path.rstrip("/").endswith(ends) for backend in backends)

    def pages(self, project: int) -> Iterator[TasksPage]:
        """The project's tasks with their annotations, of those that have any; a task may come twice.

        Where tasks leave meanwhile others move to pages that were read already, so all are read once more.
        """
        more = {"project": project, "page_size": PAGE_TASKS, "fields": "all", "query": json.dumps(ANNOTATED)}
        again = True
        while again:
            again, seen, page, total = False, 0, 0, 0
            while page == 0 or seen < total:
                page += 1
                found: TasksPage = self._read(TASKS_PAGE, "/api/tasks/", page=page, **more)
                yield found
                again = again or found["total"] < total
                seen, total = seen + len(found["tasks"]), found["total"]
                if not found["tasks"]:
                    break

    def is_deleted(self, annotation: int) -> bool:
        """Whether there is no such annotation. What stands between may say 404 too, but not as Label Studio does."""
        path = f"/api/annotations/{annotation}/"
        status, body = self._get(path)
        if status == HTTPStatus.NOT_FOUND and _json(body).get("status_code") == HTTPStatus.NOT_FOUND:
            return True
        self._check(path, status)
        return False

    def _read(self, shape: Any, path: str, **query: Any) -> Any:
        status, body = self._get(path, **query)
        self._check(path, status)
        try:
            return parsed(shape, body)
        except Invalid:
            raise self._failed(f"{path} answers what is none of Label Studio's") from None

    def _get(self, path: str, **query: Any) -> tuple[int, bytes]:
        """Status and body of an answer, once with another short token where the first has ended."""
        status, body = self._send("GET", path, params=query)
        if status == HTTPStatus.UNAUTHORIZED and self._lasts_shortly:
            self._authorize()
            status, body = self._send("GET", path, params=query)
        return status, body

    @property
    def _lasts_shortly(self) -> bool:
        return self._token.count(".") == 2  # as a JSON Web Token has them

    def _authorize(self) -> None:
        if not self._lasts_shortly:
            self._authorization = f"Token {self._token}"
            return
        path = "/api/token/refresh/"
        status, body = self._send("POST", path, json={"refresh": self._token})
        self._check(path, status)
        access = _json(body).get("access")
        if not isinstance(access, str):
            raise self._failed(f"{path} answers what is none of Label Studio's")
        self._authorization = f"Bearer {access}"

    def _send(self, method: str, path: str, **request: Any) -> tuple[int, bytes]:
        import httpx  # noqa: PLC0415

        assert self._http is not None  # noqa: S101  it was entered
        headers = {"authorization": self._authorization} if self._authorization else {}
        try:
            with self._http.stream(method, self._url + path, headers=headers, **request) as answer:
                content = bytearray()
                for piece in answer.iter_bytes():
                    content += piece
                    if len(content) > self._bytes_max:
                        raise self._failed(f"{path} answers more than {self._bytes_max} bytes")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(f"{path}: {str(error) or type(error).__name__}") from None
        return answer.status_code, bytes(content)

    def _check(self, path: str, status: int) -> None:
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise self._failed(f"{path} answers {status}: HINGED_LABELSTUDIO_TOKEN is good for no user who may see it")
        if status != HTTPStatus.OK:
            raise self._failed(f"{path} answers {status}")

    def _failed(self, reason: str) -> LabelStudioFailed:
        return LabelStudioFailed(f"Label Studio at {self._url}: {reason}")


def _json(body: bytes) -> dict[str, Any]:
    """An object of JSON; an empty one where it is none."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
