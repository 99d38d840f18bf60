"""Streams of a model: event streams and WebSockets, which are more than one request and its answer."""

from __future__ import annotations

from hinged.operations.base import Operation

FOLLOW: Operation[..., None] = Operation("GET", "/models/{model}/events", role="reader", frame="subscribe")
STREAM: Operation[..., None] = Operation("GET", "/models/{model}/stream", role="reader")
"""The WebSocket. Each frame needs the role of the operation that it asks for."""
