"""How the server refuses: in one shape, but below the paths of another protocol, whose programs expect theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hinged.service.errors import ServiceError


class Refusal(NamedTuple):
    """The shape of an error."""

    schema: Mapping[str, Any]
    """Of its body, for the OpenAPI document, with a title."""
    body: Callable[[ServiceError], Any] = ServiceError.body
    statuses: Mapping[int, int] = {}
    """Statuses that the protocol has another one for."""

    def status(self, error: ServiceError | type[ServiceError]) -> int:
        """The status of an error."""
        return self.statuses.get(error.status, error.status)


USUAL = Refusal(
    {
        "type": "object",
        "title": "Error",
        "description": "The one shape of every error.",
        "required": ["error"],
        "additionalProperties": False,
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "additionalProperties": False,
                "properties": {
                    "code": {"type": "string", "description": "for programs"},
                    "message": {"type": "string", "description": "for people"},
                    "details": {
                        "type": "object",
                        "description": "what is known besides, such as the index of an example",
                    },
                },
            }
        },
    }
)
OTHERS: dict[str, Refusal] = {}
"""By the first part of a path. A part of the server that speaks another protocol enters its own."""


def refusal_of(path: str) -> Refusal:
    """How a request for a path is refused."""
    return OTHERS.get(path[1:].partition("/")[0], USUAL) if OTHERS else USUAL
