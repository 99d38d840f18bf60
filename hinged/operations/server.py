"""The server itself: its keys, jobs and figures, and the others that share its store."""

from __future__ import annotations

from hinged.answers import ClusterShown, JobState, KeyShown, Standing, Ticket
from hinged.operations.base import EVERY, LONG_S, Call, Operation


class ServerOperations:
    """What is asked of the server."""

    # the job's model is checked where its name is known
    @Operation("GET", "/jobs/{job}", role="reader").asked
    def job(self, job: str) -> Call[JobState]:
        """What became of a job, as the answer that began it names it: "/jobs/..."."""
        return Call(named={"job": job.removeprefix("/jobs/")})

    @Operation("GET", "/key", role="reader").asked
    def key(self) -> Call[KeyShown]:
        """Who asks: the name of the key, its role, its models."""
        return Call()

    @Operation("POST", "/tickets", role="reader").asked
    def ticket(self) -> Call[Ticket]:
        """A ticket for one event stream or one WebSocket in a browser."""
        return Call()

    @Operation("GET", "/cluster", role="admin", covers=EVERY).asked
    def cluster(self) -> Call[ClusterShown]:
        """The servers that share a store, and the owner, epoch and position of each model."""
        return Call()

    @Operation("POST", "/cluster/models/{model}/move", role="admin").asked
    def move(self, model: str, *, to: str) -> Call[Standing]:
        """Let the server at an address have a model; where it stands then."""
        return Call({"to": to}, timeout_s=LONG_S)

    @Operation("GET", "/metrics", role="reader", covers=EVERY).asked
    def metrics(self) -> Call[str]:
        """The server's figures in Prometheus' text format."""
        return Call(text=True)
