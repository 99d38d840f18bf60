"""Query strings: an unknown parameter is refused, because the client meant something by it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from starlette.requests import HTTPConnection

from hinged.operations.base import Operation
from hinged.service.data.problems import NAME_CHARS_MAX, meant
from hinged.service.errors import Invalid

TICKET = "ticket"


def refuse_unknown_query(connection: HTTPConnection, operation: Operation[..., Any], known: Collection[str]) -> None:
    """Raise Invalid for an unknown parameter. Public operations, such as probes and files, accept any parameter."""
    if not connection.scope["query_string"] or operation.role is None:
        return
    for name in connection.query_params:
        if name not in known and name != TICKET:
            hint = meant(name, known) or "; this route has none"
            raise Invalid(f"unknown query parameter {name[:NAME_CHARS_MAX]!r}{hint}")
