"""The store that the settings ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hinged.extras import needed
from hinged.service.store.folders import check_division, name_of
from hinged.service.store.sqlite import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from hinged.service.settings import Settings
    from hinged.service.store.base import Store


def open_store(settings: Settings, on_fenced: Callable[[str], None] | None = None, *, reading: bool = False) -> Store:
    """The embedded store or the one on Redis. StoreUnavailable if it cannot be opened, Invalid if workers divide it.

    `on_fenced` is called, from any thread, when another server has taken the store over. reading: beside the server
    that owns it, for a process that writes nothing: what would write raises StoreUnavailable.
    """
    if settings.store == "sqlite":
        check_division(settings.data_dir, 0)
        return SQLiteStore(settings.data_dir, reading=reading)
    with needed("redis", "a store on Redis"):
        from hinged.service.store.redis import RedisStore  # noqa: PLC0415  who does not use Redis need not load its client
        from hinged.service.store.redis.shared import SharedRedisStore  # noqa: PLC0415

    options = _options(settings, on_fenced)
    if settings.node is None:
        return RedisStore(settings.store, reading=reading, **options)
    return SharedRedisStore(settings.store, address=settings.node, ttl_s=settings.node_ttl_s, **options)


def open_part(settings: Settings, number: int, on_fenced: Callable[[str], None]) -> Store:
    """What the worker of this number has of that store. Invalid if it is not divided so, and as above."""
    if settings.store == "sqlite":
        return SQLiteStore(settings.data_dir / name_of(number, settings.workers))
    with needed("redis", "a store on Redis"):
        from hinged.service.store.redis.divided import DividedRedisStore  # noqa: PLC0415

    options = _options(settings, on_fenced)
    return DividedRedisStore(settings.store, number=number, count=settings.workers, **options)


def _options(settings: Settings, on_fenced: Callable[[str], None] | None) -> dict[str, Any]:
    """What every store on Redis is told."""
    return {
        "namespace": settings.redis_namespace,
        "durable": settings.durability == "fsync",
        "timeout_s": settings.redis_timeout_s,
        "on_fenced": on_fenced,
    }
