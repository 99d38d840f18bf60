"""The client: a method for each route, and streams over a WebSocket. The client imports nothing of the server."""

from hinged.client.client import AsyncClient, Client, HingedError
from hinged.client.sockets import AsyncStream, Stream

__all__ = ["AsyncClient", "AsyncStream", "Client", "HingedError", "Stream"]
