"""Open the store that the settings name."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from hinged.extras import needed
from hinged.service.store.division import check_processes, division_of, name_of
from hinged.service.store.sqlite import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hinged.service.settings import Settings
    from hinged.service.store.base import Store


def open_store(settings: Settings, on_fenced: Callable[[str], None] | None = None) -> Store:
    """Open the embedded store or the store on Redis, for a server of one process, or for a node.

    Raise StoreUnavailable if it cannot be opened, Invalid if several processes divide it. `on_fenced` is called, from
    any thread, when another server has taken over the store.
    """
    if settings.node is None:
        return open_part(settings, 1, settle_division(settings, 0), on_fenced)
    with needed("redis", "a store on Redis"):
        from hinged.service.store.redis.shared import SharedRedisStore  # noqa: PLC0415

    options = _options(settings, on_fenced)
    return SharedRedisStore(settings.store, address=settings.node, ttl_s=settings.node_ttl_s, **options)


def settle_division(settings: Settings, wanted: int) -> int:
    """Return the number of processes that divide the store; 0 if it is not divided.

    A new store is divided into `wanted` parts. Raise Invalid if the server has fewer processes than the store has
    parts.
    """
    if settings.store == "sqlite":
        what: Path | str = settings.data_dir
        found = division_of(settings.data_dir)
        division = wanted if found is None else found
    else:
        with needed("redis", "a store on Redis"):
            from hinged.service.store.redis.nodes import Nodes  # noqa: PLC0415

        what, durable = f"the namespace {settings.redis_namespace}", settings.durability == "fsync"
        with closing(Nodes(settings.store, durable=durable, timeout_s=settings.redis_timeout_s)) as nodes:
            division = nodes.settle_division(settings.redis_namespace, wanted)
    check_processes(what, division, settings.processes)
    return division


def open_part(
    settings: Settings,
    number: int,
    division: int,
    on_fenced: Callable[[str], None] | None = None,
    *,
    reading: bool = False,
) -> Store:
    """Open the part of a divided store that the process with this number owns.

    reading: whether another process opens the part only to read; a write then raises StoreUnavailable. Raise
    StoreUnavailable if the part cannot be opened.
    """
    if settings.store == "sqlite":
        folder = settings.data_dir / name_of(number, division) if division else settings.data_dir
        return SQLiteStore(folder, reading=reading)
    with needed("redis", "a store on Redis"):
        from hinged.service.store.redis import RedisStore  # noqa: PLC0415  its client is loaded only if needed

    options = _options(settings, on_fenced)
    return RedisStore(settings.store, number=number, division=division, reading=reading, **options)


def _options(settings: Settings, on_fenced: Callable[[str], None] | None) -> dict[str, Any]:
    """Return the options that every store on Redis gets."""
    return {
        "namespace": settings.redis_namespace,
        "durable": settings.durability == "fsync",
        "timeout_s": settings.redis_timeout_s,
        "on_fenced": on_fenced,
    }
