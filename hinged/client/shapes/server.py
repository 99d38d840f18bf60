"""Answers about the server itself."""

from typing import Literal, TypedDict


class KeyShown(TypedDict):
    """A key, without its text."""

    name: str
    role: Literal["reader", "annotator", "writer", "admin"]
    models: list[str]


class Ticket(TypedDict):
    """What opens one stream."""

    ticket: str
    expires_at: str
