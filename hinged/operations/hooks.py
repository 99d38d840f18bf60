"""Operations on hooks: the URLs that the server calls when something happens to a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from hinged.answers import AddedHook, ListedHooks, MarkKind, RemovedHook
from hinged.operations.base import Call, Operation


class RemovedHookBefore(TypedDict):
    """The answer to a repeated removal. The hook was already removed."""

    id: str
    deleted: Literal[True]


class HookOperations:
    """The clients' methods for hooks."""

    @Operation("POST", "/models/{model}/hooks", role="admin").asked
    def add_hook(self, model: str, url: str, *, events: Sequence[MarkKind]) -> Call[AddedHook]:
        """Let the server call a URL after each of these kinds of events. Only this answer contains the hook's secret.

        This request is never retried: a retry could not tell the secret of the first hook.
        """
        return Call({"url": url, "events": list(events)}, once=True)

    # a URL may contain a secret of its receiver
    @Operation("GET", "/models/{model}/hooks", role="admin").asked
    def hooks(self, model: str) -> Call[ListedHooks]:
        """List the hooks of a model, with the number of messages that wait for each."""
        return Call()

    @Operation("DELETE", "/models/{model}/hooks/{hook}", role="admin").asked
    def remove_hook(self, model: str, hook: str) -> Call[RemovedHook | RemovedHookBefore]:
        """Remove a hook. The server calls its URL no more."""
        return Call(gone={"id": hook, "deleted": True})
