"""Times as they go over the wire."""

from __future__ import annotations

from datetime import UTC, datetime


def shown_time(ms: float) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
