"""The store on a Redis or Valkey server, or a cluster of them."""

from hinged.service.store.redis.store import RedisStore

__all__ = ["RedisStore"]
