"""The public package: the client and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hinged.version import __version__

if TYPE_CHECKING:
    from hinged.client import AsyncClient, AsyncStream, Client, HingedError, Stream

__all__ = ["AsyncClient", "AsyncStream", "Client", "HingedError", "Stream", "__version__"]


def __getattr__(name: str) -> object:
    """Import the client only when it is used, because the estimators and the server need no HTTP client."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hinged import client  # noqa: PLC0415

    return getattr(client, name)
