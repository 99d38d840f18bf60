"""The store of a process that owns no models."""

from __future__ import annotations

from typing import Any, NoReturn

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Store


def _refuse(*_: object) -> NoReturn:
    raise StoreUnavailable("this process owns no models")


_REFUSE: Any = _refuse


class Nothing(Store):
    """Contains no models and refuses to create any, because every model belongs to another process."""

    commits = None

    def models(self) -> list[str]:
        """Return an empty list."""
        return []

    def purge(self) -> list[str]:
        """Return an empty list, because there is no data to rewrite."""
        return []

    def room(self) -> None:
        """Return None: this store uses no disk."""

    def close(self) -> None:
        """Do nothing."""

    create = delete = append = end = read = read_around = find = _REFUSE
    put_snapshot = snapshots = get_snapshot = trim = redact = _REFUSE
