"""The shape of errors. All routes share one shape. Only routes of other protocols have their own shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hinged.service.errors import ServiceError


class Refusal(NamedTuple):
    """The shape of an error."""

    schema: Mapping[str, Any]
    """JSON schema of the body, with a title, for the OpenAPI document."""
    body: Callable[[ServiceError], Any] = ServiceError.body
    statuses: Mapping[int, int] = {}
    """The statuses that the protocol uses instead of the usual statuses."""

    def status(self, error: ServiceError | type[ServiceError]) -> int:
        """Return the status of an error."""
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
                        "description": "further facts, such as the index of an example",
                    },
                },
            }
        },
    }
)
OTHERS: dict[str, Refusal] = {}
"""Shapes by the first part of a path. A part of the server that speaks another protocol adds its own shape."""


def refusal_of(path: str) -> Refusal:
    """Return the shape of errors for a path."""
    return OTHERS.get(path[1:].partition("/")[0], USUAL) if OTHERS else USUAL
