"""What users import and run: the client and the command line."""

from __future__ import annotations

from hinged.client import AsyncClient, Client, HingedError

__all__ = ["AsyncClient", "Client", "HingedError"]
