"""The store of a process that owns no models."""

from __future__ import annotations

from typing import Any, NoReturn

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Store


def _refuse(*_: object) -> NoReturn:
    raise StoreUnavailable("this process owns no models")


_REFUSE: Any = _refuse


class Nothing(Store):
    """Holds no models and refuses to create any: every model belongs to another process."""

    commits = None

    def models(self) -> list[str]:
        """Store.models."""
        return []

    def purge(self) -> list[str]:
        """Store.purge."""
        return []

    def room(self) -> None:
        """Store.room."""

    def close(self) -> None:
        """Store.close."""

    create = delete = append = end = read = read_around = find = _REFUSE
    put_snapshot = snapshots = get_snapshot = trim = redact = _REFUSE
