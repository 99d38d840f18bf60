"""The errors that a client may see. Each error has a code for programs, an HTTP status and a sentence for people."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

log = logging.getLogger(__name__)

UNFORESEEN = "an unforeseen error occurred; the server's log has the traceback"


def sendable(text: str) -> str:
    """Return a text that any encoding accepts. JSON may contain lone surrogates; these become question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()


class ServiceError(Exception):
    """Base of every error that leaves the server; `body` is its only shape on the wire."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    headers: Mapping[str, str] = {}

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = sendable(message)
        self.details = {name: sendable(part) if isinstance(part, str) else part for name, part in details.items()}

    def body(self) -> dict[str, Any]:
        """Return the error in the form in which every route and every frame answers it."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = self.details
        return {"error": error}


class InternalError(ServiceError):
    """The server met an unexpected error; its log has the traceback."""


class BadRequest(ServiceError):
    """The request is not well-formed HTTP, or its Host is not allowed."""

    code = "bad_request"
    status = 400


class Unauthenticated(ServiceError):
    """The request has no key or ticket that the server knows."""

    code = "unauthenticated"
    status = 401
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class Forbidden(ServiceError):
    """The key does not permit this, or a page of a foreign origin asked for a change."""

    code = "forbidden"
    status = 403


class NotFound(ServiceError):
    """There is no such route, model or example."""

    code = "not_found"
    status = 404


class MethodNotAllowed(ServiceError):
    """The route exists, but does not accept this method."""

    code = "method_not_allowed"
    status = 405


class RequestTimeout(ServiceError):
    """The client took too long to send its request. The server processed no part of the request."""

    code = "request_timeout"
    status = 408
    headers: Mapping[str, str] = {"Connection": "close"}


class Conflict(ServiceError):
    """The request contradicts the present state."""

    code = "conflict"
    status = 409


class NoFeatures(Conflict):
    """The model has no features yet, because it has learned no example. template: the model's other parts, as JSON."""

    def __init__(self, model: str, template: str) -> None:
        super().__init__(
            f"model {model} has no features yet: the first examples with x and y, sent to POST /models/{model}/learn, "
            "determine them",
            state="waiting",
            configuration=json.loads(template),
        )
        self.template = template


class Gone(ServiceError):
    """The example was forgotten on request and must not be learned again."""

    code = "gone"
    status = 410


class BodyTooLarge(ServiceError):
    """The body is longer than the server accepts."""

    code = "body_too_large"
    status = 413


class UnsupportedMediaType(ServiceError):
    """The route does not accept this content type."""

    code = "unsupported_media_type"
    status = 415


class Invalid(ServiceError):
    """The request is well-formed, but the server refuses it. The server applied no part of the request."""

    code = "invalid"
    status = 422


class QueueFull(ServiceError):
    """A queue is full, or the key sends requests too fast. Try again after `retry_after_s` seconds."""

    code = "queue_full"
    status = 429

    def __init__(self, message: str, *, retry_after_s: int = 1, **details: Any) -> None:
        super().__init__(message, retry_after_s=retry_after_s, **details)
        self.headers = {"Retry-After": str(retry_after_s)}


class FellBehind(ServiceError):
    """The client reads the stream more slowly than the model changes. Resume at `details.position`."""

    code = "fell_behind"
    status = 429


class Unavailable(ServiceError):
    """The server is starting, stopping, or not yet able to answer. If `retry_after_s` is given, try again after that
    time.
    """

    code = "unavailable"
    status = 503

    def __init__(self, message: str, *, retry_after_s: int | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        if retry_after_s is not None:
            self.headers = {"Retry-After": str(retry_after_s)}


class StoreUnavailable(Unavailable):
    """The store did not accept the event, and nothing is acknowledged. A retry with the same ids is safe."""

    code = "store_unavailable"


class NoThread(Unavailable):
    """The system starts no thread for the server."""

    def __init__(self) -> None:
        super().__init__("the system starts no further thread; a limit of the user or of the container may be too low")


class ModelFull(ServiceError):
    """The model already contains as many points as its configuration allows."""

    code = "model_full"
    status = 507


def foreseen(error: BaseException) -> ServiceError:
    """Return the error that a client may see. An unexpected error is logged, and the client gets an InternalError."""
    if isinstance(error, ServiceError):
        return error
    log.error("unforeseen error", exc_info=error)
    return InternalError(UNFORESEEN)
