"""Operations on the server itself: its keys, jobs and figures, and the servers that share its store."""

from __future__ import annotations

from collections.abc import Sequence

from hinged.answers import ClusterShown, JobState, KeyMade, KeyRevoked, KeyShown, KeysListed, Role, Standing, Ticket
from hinged.operations.base import EVERY, LONG_S, Call, Operation


class ServerOperations:
    """The clients' methods for the server."""

    # the handler checks the key against the job's model after finding the name of that model
    @Operation("GET", "/jobs/{job}", role="reader").asked
    def job(self, job: str) -> Call[JobState]:
        """Return the state of a job. job: the "/jobs/..." path in the answer that began the job."""
        return Call(named={"job": job.removeprefix("/jobs/")})

    @Operation("GET", "/key", role="reader").asked
    def key(self) -> Call[KeyShown]:
        """Return the name of the caller's key, its role and its models."""
        return Call()

    @Operation("GET", "/keys", role="admin", covers=EVERY).asked
    def keys(self) -> Call[KeysListed]:
        """Return the keys of the server's key file, without their texts, and what each role may do."""
        return Call()

    @Operation("POST", "/keys", role="admin", covers=EVERY).asked
    def create_key(self, name: str, role: Role, models: Sequence[str] = (EVERY,)) -> Call[KeyMade]:
        """Make a key. Its text is in the answer under "key", and nowhere else.

        This request is never retried: a retry would find that the name is taken.
        """
        return Call({"name": name, "role": role, "models": list(models)}, once=True)

    @Operation("DELETE", "/keys/{key}", role="admin", covers=EVERY).asked
    def revoke_key(self, key: str) -> Call[KeyRevoked]:
        """Revoke the key with this name, from the next request on."""
        return Call(gone={"name": key, "revoked": True})

    @Operation("POST", "/tickets", role="reader").asked
    def ticket(self) -> Call[Ticket]:
        """Return a ticket that opens one event stream or one WebSocket in a browser."""
        return Call()

    @Operation("GET", "/cluster", role="admin", covers=EVERY).asked
    def cluster(self) -> Call[ClusterShown]:
        """Return the servers that share a store, and the owner, epoch and position of each model."""
        return Call()

    @Operation("POST", "/cluster/models/{model}/move", role="admin").asked
    def move(self, model: str, *, to: str) -> Call[Standing]:
        """Move a model to the server at an address. Return the owner of the model after the move."""
        return Call({"to": to}, timeout_s=LONG_S)

    @Operation("GET", "/metrics", role="reader", covers=EVERY).asked
    def metrics(self) -> Call[str]:
        """Return the server's figures in Prometheus' text format."""
        return Call(text=True)
