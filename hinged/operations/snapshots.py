"""Snapshots: kept, taken elsewhere, gone back to."""

from __future__ import annotations

from hinged.answers import Imported, KeptSnapshot, RolledBack, SetAside
from hinged.operations.base import LONG_S, Call, Operation


class SnapshotOperations:
    """What is asked of a model's states."""

    @Operation("POST", "/models/{model}/snapshot", role="writer").asked
    def snapshot(self, model: str) -> Call[KeptSnapshot]:
        """Let the server keep a snapshot now; the answer comes when it is durable."""
        return Call(timeout_s=LONG_S)

    # it hands out every example, label and annotator that the model holds
    @Operation("GET", "/models/{model}/export", role="admin").asked
    def export_model(self, model: str, *, as_of: int | None = None) -> Call[bytes]:
        """The model as the bytes of a file, or as it was at a position of its log."""
        return Call(query={"as_of": as_of}, binary=True, timeout_s=LONG_S)

    @Operation("POST", "/models/{model}/import", role="admin").asked
    def import_model(self, model: str, file: bytes) -> Call[Imported]:
        """A new model from the bytes of such a file; a conflict (409) if there is one of this name.

        Tried once: a second try could not tell its own model from another's.
        """
        return Call(bytes(file), timeout_s=LONG_S, once=True)

    @Operation("POST", "/models/{model}/rollback", role="admin").asked
    def rollback(self, model: str, position: int) -> Call[RolledBack]:
        """Make the model what it was at a position of its log.

        Tried once: a second try could undo what came in between.
        """
        return Call({"position": position}, timeout_s=LONG_S, once=True)

    @Operation("POST", "/models/{model}/skip", role="admin").asked
    def skip_event(self, model: str, position: int | None = None) -> Call[SetAside]:
        """Pass over the event that the model could not take in, and before which it stands.

        position: of that event; None for whichever it is. A second try is safe where the position is given.
        """
        body = {} if position is None else {"position": position}
        return Call(body, timeout_s=LONG_S, once=True)
