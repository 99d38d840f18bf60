"""Operations on the server itself: its keys, jobs and figures, and the servers that share its store."""

from __future__ import annotations

from hinged.answers import ClusterShown, JobState, KeyShown, Standing, Ticket
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
