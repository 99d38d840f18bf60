"""The embedded store: one SQLite file."""

from hinged.service.store.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
