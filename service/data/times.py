"""Times as they go over the wire."""

from __future__ import annotations

from datetime import UTC, datetime

from hinged.service.errors import Invalid

DATE = r"^\d{4}-\d{2}-\d{2}([T ].*)?$"
"""What a time begins with."""


def milliseconds(text: str, place: str) -> float:
    """Milliseconds since 1970 of a day or a time as ISO 8601, in UTC where it names no zone. Invalid if it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{place}: expected a time such as 2026-05-01T12:00:00Z, got {text[:40]!r}") from None
    return 1000 * (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def shown_time(ms: float) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
