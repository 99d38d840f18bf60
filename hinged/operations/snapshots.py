"""Operations on snapshots: keep, export, import, roll back."""

from __future__ import annotations

from hinged.answers import Imported, KeptSnapshot, RolledBack, SetAside
from hinged.operations.base import LONG_S, Call, Operation


class SnapshotOperations:
    """The clients' methods for a model's states."""

    @Operation("POST", "/models/{model}/snapshot", role="writer").asked
    def snapshot(self, model: str) -> Call[KeptSnapshot]:
        """Keep a snapshot now; the answer comes when the snapshot is durable."""
        return Call(timeout_s=LONG_S)

    # an export contains every example, label and annotator of the model
    @Operation("GET", "/models/{model}/export", role="admin").asked
    def export_model(self, model: str, *, as_of: int | None = None) -> Call[bytes]:
        """Return the model as the bytes of a file. as_of: as it was at this position of its log."""
        return Call(query={"as_of": as_of}, binary=True, timeout_s=LONG_S)

    @Operation("POST", "/models/{model}/import", role="admin").asked
    def import_model(self, model: str, file: bytes) -> Call[Imported]:
        """Create a model from the bytes of an exported file; a conflict (409) if the name is taken.

        Never retried: a retry could not tell the model it made from another client's.
        """
        return Call(bytes(file), timeout_s=LONG_S, once=True)

    @Operation("POST", "/models/{model}/rollback", role="admin").asked
    def rollback(self, model: str, position: int) -> Call[RolledBack]:
        """Return the model to its state at a position of its log.

        Never retried: a retry could undo changes made in between.
        """
        return Call({"position": position}, timeout_s=LONG_S, once=True)

    @Operation("POST", "/models/{model}/skip", role="admin").asked
    def skip_event(self, model: str, position: int | None = None) -> Call[SetAside]:
        """Pass over the event that the model could not apply and before which it has stopped.

        position: of that event; None: whichever event it is. Sending the request again is safe if the position is
        given.
        """
        body = {} if position is None else {"position": position}
        return Call(body, timeout_s=LONG_S, once=True)
