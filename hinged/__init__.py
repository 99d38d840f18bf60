"""What users import and run: the client and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hinged.version import __version__

if TYPE_CHECKING:
    from hinged.client import AsyncClient, AsyncStream, Client, HingedError, Stream

__all__ = ["AsyncClient", "AsyncStream", "Client", "HingedError", "Stream", "__version__"]


def __getattr__(name: str) -> object:
    """The client, imported when it is asked for: who imports an estimator or serves needs no HTTP client."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hinged import client  # noqa: PLC0415

    return getattr(client, name)
