"""The store on a Redis or Valkey server, or on a cluster of such servers."""

from hinged.service.store.redis.store import RedisStore

__all__ = ["RedisStore"]
