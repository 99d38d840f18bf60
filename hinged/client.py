"""The client: one method a route; each returns the server's JSON answer as a dict.

A request that meets a broken connection, a full queue (429) or a server that is not ready (503) is sent
again, the same bytes, after a growing pause. That is safe: each example has an id before the first try, and
the server learns an id once.
"""

from __future__ import annotations

import itertools
import json
import random
import time
import uuid
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Finishing works until the solver has converged, so the time-out of a common request says nothing about it.
FINISH_TIMEOUT_S = 3600.0

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0
RETRY_AFTER_MAX_S = 60.0
RETRIED_STATUSES = frozenset({429, 503})
RETRIED_ERRORS = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)

# A proxy from the environment cannot reach this machine's loopback names.
UNPROXIED = ("all://localhost", "all://127.0.0.1", "all://[::1]")


class HingedError(Exception):
    """The server's refusal, or no answer at all.

    status   HTTP status, None if no answer came
    code     for programs: the server's own ("not_found", "conflict", ...), or "unreachable" (no answer),
             "not_ready" (waited in vain), "unexpected_answer" (what answers is no hinged server)
    message  one sentence for people
    details  what the server adds to its message
    """

    def __init__(
        self, message: str, *, code: str, status: int | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.details: dict[str, Any] = dict(details or {})


class Client:
    """A connection to one server. Close it, or use it in a `with` block.

    >>> client = Client()
    >>> client.create_model("spam", features={"type": "dense", "dim": 2}, kernel={"type": "rbf", "gamma": 2})
    >>> client.learn("spam", [{"x": [0.1, 0.9], "y": "ham"}])
    >>> client.predict("spam", [{"x": [0.2, 0.8]}])["results"][0]["prediction"]
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", *, timeout_s: float = 60.0, tries_max: int = 8) -> None:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ValueError(f"{url!r} is no URL: {error}") from error
        if parsed.scheme not in {"http", "https"} or not parsed.host:
            raise ValueError(f"url must be like http://127.0.0.1:8000, got {url!r}")
        if not tries_max >= 1:
            raise ValueError(f"tries_max must be >= 1, got {tries_max}")
        self.url = url.rstrip("/")
        self.tries_max = tries_max
        self._timeout_s = timeout_s
        self._http = httpx.Client(timeout=timeout_s, mounts=dict.fromkeys(UNPROXIED))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def create_model(self, model: str, **configuration: Any) -> dict[str, Any]:
        """Create a model; the same configuration again changes nothing, another one is a conflict (409)."""
        return self._call("PUT", _path(model), configuration)

    def models(self) -> list[Any]:
        """All models of the server, as it lists them."""
        return list(self._call("GET", "/models")["models"])

    def model(self, model: str) -> dict[str, Any]:
        """Configuration, position and figures of one model."""
        return self._call("GET", _path(model))

    def delete_model(self, model: str) -> dict[str, Any]:
        """Delete a model and its log."""
        return self._call("DELETE", _path(model), gone_is_done=True)

    def learn(self, model: str, examples: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Learn examples {"x", "y", "id"}, in order; one without an id is given a random one.

        Each result holds the prediction made right before that example was learned. An x is a sequence of
        numbers or {"indices": ..., "values": ...}; arrays will do.
        """
        return self._call("POST", f"{_path(model)}/learn", {"examples": _with_ids(examples)})

    def predict(self, model: str, examples: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Predict examples {"x", "id"}; the model stays as it is."""
        return self._call("POST", f"{_path(model)}/predict", {"examples": _with_ids(examples)})

    def finish(self, model: str, *, timeout_s: float = FINISH_TIMEOUT_S) -> dict[str, Any]:
        """Let the solver work on what it has learned until it has converged."""
        return self._call("POST", f"{_path(model)}/finish", timeout_s=timeout_s)

    def ready(self) -> bool:
        """Whether the server takes requests now; raises `unreachable` where nothing listens."""
        try:
            response = self._http.get(f"{self.url}/readyz")
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return False
        _answer(response)
        return True

    def wait_until_ready(self, timeout_s: float = 120.0) -> None:
        """Return as soon as the server is ready, whether it listens already or not."""
        deadline = time.monotonic() + timeout_s
        reason = "it is not ready"
        while True:
            try:
                if self.ready():
                    return
            except HingedError as error:
                if error.status is not None:
                    raise
                reason = error.message
            if time.monotonic() >= deadline:
                raise HingedError(f"waited {timeout_s:g} s for {self.url}: {reason}", code="not_ready")
            time.sleep(0.2)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        gone_is_done: bool = False,
    ) -> dict[str, Any]:
        content = None if body is None else _encode(body)
        headers = {} if content is None else {"content-type": "application/json"}
        timeout = self._timeout_s if timeout_s is None else timeout_s
        for attempt in itertools.count(1):
            pause_s = 0.0
            try:
                response = self._http.request(
                    method, f"{self.url}{path}", content=content, headers=headers, timeout=timeout
                )
            except RETRIED_ERRORS as error:
                if attempt >= self.tries_max:
                    raise self._unreachable(error) from error
            except httpx.RequestError as error:
                raise self._unreachable(error) from error
            else:
                if gone_is_done and attempt > 1 and response.status_code == httpx.codes.NOT_FOUND:
                    return {}  # an earlier try did it and its answer was lost
                if response.status_code not in RETRIED_STATUSES or attempt >= self.tries_max:
                    return _answer(response)
                pause_s = _retry_after_s(response)
            time.sleep(max(pause_s, _backoff_s(attempt)))
        raise AssertionError("unreachable: the loop above has no end")

    def _unreachable(self, error: Exception) -> HingedError:
        reason = str(error) or type(error).__name__
        return HingedError(f"no answer from {self.url}: {reason}", code="unreachable")


def _path(model: str) -> str:
    return f"/models/{quote(model, safe='')}"


def _with_ids(examples: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**example, "id": uuid.uuid4().hex} if example.get("id") is None else dict(example) for example in examples]


def _encode(body: Mapping[str, Any]) -> bytes:
    # NaN is no JSON: better a ValueError here than a refusal of the whole batch there.
    return json.dumps(body, default=_plain, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value and has no tolist()")


def _answer(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of a success; everything else raises."""
    try:
        answer = response.json() if response.content else {}
    except ValueError:
        answer = None
    error = answer.get("error") if isinstance(answer, dict) else None
    if response.is_success and isinstance(answer, dict):
        return answer
    status = response.status_code
    if isinstance(error, dict) and isinstance(error.get("code"), str):
        details = error.get("details")
        raise HingedError(
            str(error.get("message", error["code"])),
            code=error["code"],
            status=status,
            details=details if isinstance(details, dict) else None,
        )
    request = response.request
    raise HingedError(
        f"{request.method} {request.url} answered {status} and no JSON of a hinged server",
        code="unexpected_answer",
        status=status,
        details={"body": response.text[:200]},
    )


def _retry_after_s(response: httpx.Response) -> float:
    try:
        asked_s = float(response.headers.get("retry-after", "0"))
    except ValueError:  # a date, as proxies may send: the backoff will do
        return 0.0
    return min(asked_s, RETRY_AFTER_MAX_S) if asked_s > 0.0 else 0.0


def _backoff_s(attempt: int) -> float:
    # Jitter keeps clients that failed together from coming back together.
    jitter = random.uniform(0.5, 1.0)  # noqa: S311 - nothing secret hangs on it
    return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** (attempt - 1)) * jitter
