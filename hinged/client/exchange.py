"""A call of the server as a series of requests and pauses, without I/O. Both clients use such exchanges.

An exchange is a generator. The generator yields the next step, a `Send` or a `Pause`. The client sends back the
response, or the error that httpx raised. At the end, the generator returns the answer. All decisions about retries are
therefore made here; a client only sends and sleeps.

The exchange sends the same bytes again, after a growing pause, if the connection broke, a queue is full (429), the
server is not ready (503) or a proxy finds no server (502, 504). It does the same if servers name each other as the
owner of a model (307). Retries are safe, because each example gets an id before the first try. While a model is being
loaded or compiled, the exchange waits, and these tries do not count.
"""

from __future__ import annotations

import logging
import math
import random
import ssl
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import httpx

from hinged.operations.base import Call
from hinged.operations.values import encoded

log = logging.getLogger("hinged.client")

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0
RETRY_AFTER_MAX_S = 60.0
COMING = frozenset({"compiling", "loading"})  # a model in such a state will soon be ready, without any action
COMING_S = 300.0
"""Maximum number of seconds for which a call waits for a model in such a state. These tries do not count as failed."""
READY_POLL_S = 0.2
PREFER = {"prefer": "redirect"}
"""Header that asks the server to name the owner of a model, instead of forwarding the request."""
PASSED_ON = ""
"""Stands for the owner of a model if this client does not trust it: the first server passes requests on."""
HOPS_MAX = 2
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
NO_SERVER = frozenset({502, 503, 504})
"""HTTP statuses of a server that is not ready, and of a proxy that finds no server."""
RETRIED_ERRORS = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)


class HingedError(Exception):
    """A refusal by the server, or no answer at all.

    Attributes
    ----------
    status : HTTP status, None if no answer came.
    code : for programs. The server's codes are "not_found", "conflict" and so on. The client adds "unreachable" (no
        answer), "not_ready" (still not ready after the wait) and "unexpected_answer" (not a hinged server).
    message : one sentence for people.
    details : facts that the server adds to its message.
    """

    def __init__(
        self, message: str, *, code: str, status: int | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.details: dict[str, Any] = dict(details or {})


@dataclass(frozen=True)
class Send:
    """A request to send. timeout_s: None means the client's own timeout."""

    method: str
    url: str
    content: bytes | None = None
    media_type: str = "application/json"
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pause:
    """A pause of this many seconds."""

    seconds: float


Outcome = httpx.Response | httpx.RequestError | None
Answer = TypeVar("Answer")
Exchange = Generator[Send | Pause, Outcome, Answer]


def exchange(url: str, call: Call[Any], tries_max: int, owners: dict[str, str] | None = None) -> Exchange[Any]:
    """Send a call until the server answers. Raise HingedError for a refusal, or if no try got an answer.

    owners: the owner of each model, if several servers share a store. The exchange updates these owners.
    """
    send = Send(
        call.method,
        url + call.path,
        call.body if call.body is None or isinstance(call.body, bytes) else encoded(call.body),
        call.media_type if isinstance(call.body, bytes) else "application/json",
        {name: value for name, value in call.query.items() if value is not None},
        call.timeout_s,
    )
    way = Destination(url, call.path, owners)
    attempt, waits_until = 0, time.monotonic() + COMING_S if tries_max > 1 else -math.inf
    while True:
        outcome = yield way.led(send)
        for _ in range(HOPS_MAX):
            if not way.leads_on(outcome):
                break
            outcome = yield way.led(send)
        pause_s = 0.0
        if not (_is_coming(outcome) and time.monotonic() < waits_until):
            attempt += 1
        if isinstance(outcome, httpx.Response):
            if call.gone is not None and attempt > 1 and outcome.status_code == httpx.codes.NOT_FOUND:
                return dict(call.gone)
            if not (outcome.status_code in RETRIED_STATUSES or way.leads_on(outcome)) or attempt >= tries_max:
                return _read(call, outcome)
            pause_s = _retry_after_s(outcome)
        elif not isinstance(outcome, RETRIED_ERRORS) or attempt >= tries_max:
            raise unreachable(url, outcome)
        pause_s = max(pause_s, backoff_s(max(attempt, 1)))
        why = outcome.status_code if isinstance(outcome, httpx.Response) else type(outcome).__name__
        log.info("%s %s is sent again in %.2g s: %s", call.method, call.path, pause_s, why)
        yield Pause(pause_s)


def owner_named(status: int, headers: Mapping[str, str]) -> str | None:
    """Return the server to which an answer redirects. Return None if the answer does not redirect."""
    parts = urlsplit(headers.get("location", ""))
    if status != httpx.codes.TEMPORARY_REDIRECT or not parts.netloc:
        return None
    return f"{parts.scheme}://{parts.netloc}"


class Destination:
    """The target of one call: the server whose address the client was given, or the owner of the model."""

    def __init__(self, url: str, path: str, owners: dict[str, str] | None) -> None:
        parts = path.split("/")
        self._url = url
        self._owners: dict[str, str] = {} if owners is None else owners
        self._model = unquote(parts[2]) if owners is not None and parts[1] == "models" and len(parts) > 2 else None

    def led(self, send: Send) -> Send:
        """Return the request, addressed to this target."""
        if self._model is None:
            return send
        owner = self._owners.get(self._model, self._url)
        if owner == PASSED_ON:
            return send
        return replace(send, url=owner + send.url.removeprefix(self._url), headers=PREFER)

    def leads_on(self, outcome: Outcome) -> bool:
        """Return whether to send the same request to a different server: to the named owner, or to the first server if
        the owner is gone.
        """
        if self._model is None:
            return False
        if isinstance(outcome, httpx.Response):
            owner = owner_named(outcome.status_code, outcome.headers)
            if owner is not None:
                self._owners[self._model] = owner
                return True
            if outcome.status_code not in NO_SERVER:
                return False
        if self._owners.pop(self._model, PASSED_ON) == PASSED_ON:
            return False
        if _is_untrusted(outcome):  # later calls need not try either
            self._owners[self._model] = PASSED_ON
        elif not isinstance(outcome, httpx.Response):
            self._model = None  # this client cannot reach the owner: let the server forward the request
        return True


def _is_untrusted(error: BaseException | Outcome) -> bool:
    """Return whether a request failed because the client does not trust the certificate of the server."""
    while isinstance(error, BaseException) and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return isinstance(error, ssl.SSLCertVerificationError)


def ready(url: str) -> Exchange[bool]:
    """Return whether the server accepts requests now. Raise HingedError `unreachable` if nothing listens."""
    outcome = yield Send("GET", f"{url}/readyz")
    if not isinstance(outcome, httpx.Response):
        raise unreachable(url, outcome)
    if outcome.status_code in NO_SERVER:
        return False
    answer_of(outcome)
    return True


def wait_until_ready(url: str, timeout_s: float) -> Exchange[bool]:
    """Wait until the server is ready, even if nothing listens yet. Return True."""
    deadline = time.monotonic() + timeout_s
    reason = "it is not ready"
    while True:
        try:
            if (yield from ready(url)):
                return True
        except HingedError as error:
            if error.status is not None:
                raise
            reason = error.message
        if time.monotonic() >= deadline:
            raise HingedError(f"waited {timeout_s:g} s for {url}: {reason}", code="not_ready")
        yield Pause(READY_POLL_S)


def wait_for_change(url: str, answer: Mapping[str, Any], tries_max: int, timeout_s: float) -> Exchange[Any]:
    """Wait for the job that an answer names, and return its final state. If the answer names no job, return the answer
    itself.
    """
    if "job" not in answer:
        return dict(answer)
    deadline = time.monotonic() + timeout_s
    while True:
        job = yield from exchange(url, Call(path=answer["job"]), tries_max)
        if job["state"] == "failed":
            raise HingedError(job["error"], code="job_failed")
        if job["state"] == "done":
            return job
        if time.monotonic() >= deadline:
            raise HingedError(f"waited {timeout_s:g} s: {job['progress']:.0%} of {job['job']}", code="not_ready")
        yield Pause(READY_POLL_S)


def answer_of(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a successful answer. Raise an error for any other answer."""
    try:
        answer = response.json() if response.content else {}
    except ValueError:
        answer = None
    if response.is_success and isinstance(answer, dict):
        return answer
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict) and isinstance(error.get("code"), str):
        details = error.get("details")
        raise HingedError(
            str(error.get("message", error["code"])),
            code=error["code"],
            status=response.status_code,
            details=details if isinstance(details, dict) else None,
        )
    raise HingedError(
        f"{response.request.method} {response.request.url} answered {response.status_code}, "
        "which is not JSON of a hinged server",
        code="unexpected_answer",
        status=response.status_code,
        details={"body": response.text[:200]},
    )


def _is_coming(outcome: Outcome) -> bool:
    """Return whether the model is being loaded, or its solver is being compiled."""
    if not isinstance(outcome, httpx.Response) or outcome.status_code != httpx.codes.SERVICE_UNAVAILABLE:
        return False
    try:
        return outcome.json()["error"]["details"]["state"] in COMING
    except (ValueError, LookupError, TypeError):
        return False


def _read(call: Call[Any], response: httpx.Response) -> Any:
    if response.is_success and (call.text or call.binary):
        return response.text if call.text else response.content
    answer = answer_of(response)
    return answer if call.part is None else answer[call.part]


def unreachable(url: str, error: Exception | None) -> HingedError:
    """Return the error for a call that got no answer in any try."""
    raised = HingedError(f"no answer from {url}: {str(error) or type(error).__name__}", code="unreachable")
    raised.__cause__ = error
    return raised


def _retry_after_s(response: httpx.Response) -> float:
    try:
        asked_s = float(response.headers.get("retry-after", "0"))
    except ValueError:  # a proxy may send a date: use the growing pause instead
        return 0.0
    return min(asked_s, RETRY_AFTER_MAX_S) if asked_s > 0.0 else 0.0


def backoff_s(attempt: int) -> float:
    """Return the pause in seconds after this many tries."""
    # Random differences spread the retries of clients that failed at the same time.
    jitter = random.uniform(0.5, 1.0)  # noqa: S311 - no secret depends on it
    return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** (attempt - 1)) * jitter
