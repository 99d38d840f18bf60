"""Answers about hooks: the URLs that the server calls when something happens to a model."""

from typing import Literal

from typing_extensions import TypedDict

from hinged.answers.models import MarkKind


class ShownHook(TypedDict):
    """A hook. waiting: the number of messages that its receiver has not accepted yet. error: why the last call failed,
    or null.
    """

    id: str
    url: str
    events: list[MarkKind]
    created_at: str
    waiting: int
    error: str | None


class ListedHooks(TypedDict):
    """The hooks of a model."""

    model: str
    position: int
    hooks: list[ShownHook]


class AddedHook(TypedDict):
    """A new hook. secret: the receiver checks signatures with it. No other answer contains it."""

    model: str
    position: int
    id: str
    url: str
    events: list[MarkKind]
    secret: str


class RemovedHook(TypedDict):
    """A hook was removed."""

    model: str
    position: int
    id: str
    deleted: Literal[True]
