"""What users import and run: the client and the command line."""

from __future__ import annotations

from hinged.client import AsyncClient, AsyncStream, Client, HingedError, Stream
from hinged.version import __version__

__all__ = ["AsyncClient", "AsyncStream", "Client", "HingedError", "Stream", "__version__"]
