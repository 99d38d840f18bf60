"""The errors that a client may see: each has a code for programs, a status for HTTP and a sentence for people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

UNFORESEEN = "something unforeseen went wrong; the server's log has the traceback"


def sendable(text: str) -> str:
    """A text that may quote half a character out of some JSON, which no encoding has, with a question mark there."""
    return text if text.isascii() else text.encode(errors="replace").decode()


class ServiceError(Exception):
    """Base of every error that leaves the server; `body` is its one shape on the wire."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    headers: Mapping[str, str] = {}

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = sendable(message)
        self.details = {name: sendable(part) if isinstance(part, str) else part for name, part in details.items()}

    def body(self) -> dict[str, Any]:
        """The error as every route and every frame answers it."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = self.details
        return {"error": error}


class InternalError(ServiceError):
    """Something unforeseen; the log of the server has the traceback."""


class BadRequest(ServiceError):
    """The request is not well-formed HTTP or names no allowed host."""

    code = "bad_request"
    status = 400


class Unauthenticated(ServiceError):
    """The request brings no key or ticket that the server knows."""

    code = "unauthenticated"
    status = 401
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class Forbidden(ServiceError):
    """The key is not good for this, or a page of a foreign origin asked for a change."""

    code = "forbidden"
    status = 403


class NotFound(ServiceError):
    """No such route, model or example."""

    code = "not_found"
    status = 404


class MethodNotAllowed(ServiceError):
    """The route exists, the method does not."""

    code = "method_not_allowed"
    status = 405


class RequestTimeout(ServiceError):
    """The client takes too long to send its request; what had come of it was not read."""

    code = "request_timeout"
    status = 408
    headers: Mapping[str, str] = {"Connection": "close"}


class Conflict(ServiceError):
    """What was sent contradicts what is already there."""

    code = "conflict"
    status = 409


class Gone(ServiceError):
    """The example was forgotten on demand, and is not to come back."""

    code = "gone"
    status = 410


class BodyTooLarge(ServiceError):
    """The body is longer than the server reads."""

    code = "body_too_large"
    status = 413


class UnsupportedMediaType(ServiceError):
    """The content type is none that the route reads."""

    code = "unsupported_media_type"
    status = 415


class Invalid(ServiceError):
    """The request was understood and is refused; nothing of it was applied."""

    code = "invalid"
    status = 422


class QueueFull(ServiceError):
    """The model has as much work waiting as it may have; try again after `retry_after_s` seconds."""

    code = "queue_full"
    status = 429

    def __init__(self, message: str, *, retry_after_s: int = 1, **details: Any) -> None:
        super().__init__(message, retry_after_s=retry_after_s, **details)
        self.headers = {"Retry-After": str(retry_after_s)}


class FellBehind(ServiceError):
    """Who follows a model reads more slowly than it changes; `details.position` is where to go on."""

    code = "fell_behind"
    status = 429


class Unavailable(ServiceError):
    """The server is starting, stopping, or may not yet answer; where `retry_after_s` is given it will after that."""

    code = "unavailable"
    status = 503

    def __init__(self, message: str, *, retry_after_s: int | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        if retry_after_s is not None:
            self.headers = {"Retry-After": str(retry_after_s)}


class StoreUnavailable(Unavailable):
    """The store did not take the event; nothing of it is acknowledged. A retry with the same ids is safe."""

    code = "store_unavailable"


class ModelFull(ServiceError):
    """The model holds as many points as its configuration lets it."""

    code = "model_full"
    status = 507


def attempted(call: Callable[..., T], *arguments: Any) -> T | ServiceError:
    """What a call finds, or why it is refused."""
    try:
        return call(*arguments)
    except ServiceError as error:
        return error


def foreseen(error: BaseException) -> ServiceError:
    """An error as a client may see it: what nobody foresaw is told to the log, and not to the client."""
    if isinstance(error, ServiceError):
        return error
    log.error("unforeseen", exc_info=error)
    return InternalError(UNFORESEEN)
