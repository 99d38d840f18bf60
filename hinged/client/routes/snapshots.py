"""Snapshots: kept, taken elsewhere, gone back to."""

from __future__ import annotations

from hinged.client.exchange import Call, Exchange, exchange
from hinged.client.methods import route
from hinged.client.routes.asking import FINISH_TIMEOUT_S, Asking
from hinged.client.routes.paths import path_of
from hinged.client.shapes import Imported, KeptSnapshot, RolledBack, SetAside
from hinged.client.values import ModelFile


class SnapshotRoutes(Asking):
    """What is asked of a model's states."""

    @route
    def snapshot(self, model: str) -> Exchange[KeptSnapshot]:
        """Let the server keep a snapshot now; the answer comes when it is durable."""
        return self._ask("POST", f"{path_of(model)}/snapshot", timeout_s=FINISH_TIMEOUT_S)

    @route
    def export_model(self, model: str, *, as_of: int | None = None) -> Exchange[bytes]:
        """The model as the bytes of a file, or as it was at a position of its log."""
        call = Call("GET", f"{path_of(model)}/export", query={"as_of": as_of}, binary=True, timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, self.tries_max)

    @route
    def import_model(self, model: str, file: bytes) -> Exchange[Imported]:
        """A new model from the bytes of such a file; a conflict (409) if there is one of this name.

        Tried once: a second try could not tell its own model from another's.
        """
        call = Call("POST", f"{path_of(model)}/import", bytes(file), timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, tries_max=1)

    @route
    def upload(self, model: str, estimator: ModelFile) -> Exchange[Imported]:
        """A new model of a fitted estimator of hinged.sklearn, as `import_model` makes one of a file.

        The way back is `hinged.sklearn.load(client.export_model(model))`.
        """
        if not hasattr(estimator, "to_model_file"):
            raise TypeError(f"upload takes a fitted estimator of hinged.sklearn, got {type(estimator).__name__}")
        call = Call("POST", f"{path_of(model)}/import", estimator.to_model_file(), timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, tries_max=1)

    @route
    def rollback(self, model: str, position: int) -> Exchange[RolledBack]:
        """Make the model what it was at a position of its log.

        Tried once: a second try could undo what came in between.
        """
        call = Call("POST", f"{path_of(model)}/rollback", {"position": position}, timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, tries_max=1)

    @route
    def skip_event(self, model: str, position: int | None = None) -> Exchange[SetAside]:
        """Pass over the event that the model could not take in, and before which it stands.

        position: of that event; None for whichever it is. A second try is safe where the position is given.
        """
        body = {} if position is None else {"position": position}
        call = Call("POST", f"{path_of(model)}/skip", body, timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, tries_max=1)
