"""Times in the log, in requests and in answers."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from hinged.service.errors import Invalid

DATE = r"^\d{4}-\d{2}-\d{2}([T ].*)?$"
"""Pattern that matches the beginning of a time."""


def now_ms() -> int:
    """Return the milliseconds since 1970 by the clock, which may be set back. A log's own time (Journal.now_ms) never
    decreases.
    """
    return time.time_ns() // 1_000_000


def milliseconds(text: str, place: str) -> float:
    """Return the milliseconds since 1970 of a day or time in ISO 8601. A time without a zone is UTC. Raise Invalid for
    other texts.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{place}: must be a time such as 2026-05-01T12:00:00Z, got {text[:40]!r}") from None
    return 1000 * (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def shown_time(ms: float) -> str:
    """Return milliseconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
