"""Query strings: a parameter that the route does not have is refused, for whoever wrote it meant something by it."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from hinged.service.data.problems import NAME_CHARS_MAX, meant
from hinged.service.edge.access import RULES
from hinged.service.errors import Invalid

TICKET = "ticket"


def refuse_unknown_query(connection: HTTPConnection) -> None:
    """Invalid for a parameter that the route does not have. What anyone may read, as probes and files, takes any."""
    if not connection.scope["query_string"]:
        return
    route = connection.scope["route"]
    rule = RULES.get(route.name)
    if rule is not None and rule.role is None:
        return
    known = [parameter.alias for parameter in route.dependant.query_params]
    for name in connection.query_params:
        if name not in known and name != TICKET:
            hint = meant(name, known) or "; this route has none"
            raise Invalid(f"unknown query parameter {name[:NAME_CHARS_MAX]!r}{hint}")


async def known_query(connection: HTTPConnection) -> None:
    """The same as a dependency of every route."""
    refuse_unknown_query(connection)
