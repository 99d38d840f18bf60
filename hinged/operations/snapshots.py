"""Operations on snapshots: take, export, import, and roll back."""

from __future__ import annotations

from hinged.answers import Imported, KeptSnapshot, RolledBack, SetAside
from hinged.operations.base import LONG_S, Call, Operation

SUFFIX, LOG_SUFFIX = ".hinged", ".hinged-log"
"""Ends of the names of files with an exported model, and with a model and its log."""


class SnapshotOperations:
    """The clients' methods for a model's states."""

    @Operation("POST", "/models/{model}/snapshot", role="writer").asked
    def snapshot(self, model: str) -> Call[KeptSnapshot]:
        """Take a snapshot now. The answer comes when the snapshot is durable."""
        return Call(timeout_s=LONG_S)

    # an export contains every example, label and annotator of the model
    @Operation("GET", "/models/{model}/export", role="admin").asked
    def export_model(self, model: str, *, as_of: int | None = None, log: bool = False) -> Call[bytes]:
        """Return the model as the bytes of a file. as_of: export the state at this position of the log. log: with the
        log, for `hinged verify`; such a file cannot be imported.
        """
        return Call(query={"as_of": as_of, "log": log or None}, binary=True, timeout_s=LONG_S)

    @Operation("POST", "/models/{model}/import", role="admin").asked
    def import_model(self, model: str, file: bytes) -> Call[Imported]:
        """Create a model from the bytes of an exported file. If the name is taken, this is a conflict (409).

        This request is never retried: a retry could not tell its own model from a model of another client.
        """
        return Call(bytes(file), timeout_s=LONG_S, once=True)

    @Operation("POST", "/models/{model}/rollback", role="admin").asked
    def rollback(self, model: str, position: int) -> Call[RolledBack]:
        """Return the model to its state at a position of its log.

        This request is never retried: a retry could undo changes made in between.
        """
        return Call({"position": position}, timeout_s=LONG_S, once=True)

    @Operation("POST", "/models/{model}/skip", role="admin").asked
    def skip_event(self, model: str, position: int | None = None) -> Call[SetAside]:
        """Skip the event at which the model has stopped because it could not apply the event.

        position: the position of that event. None: skip that event whatever its position. A retry is safe if the
        position is given.
        """
        body = {} if position is None else {"position": position}
        return Call(body, timeout_s=LONG_S, once=True)
