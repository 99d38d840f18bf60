"""The server itself: its keys, jobs and figures, and the others that share its store."""

from __future__ import annotations

from hinged.answers import ClusterShown, JobState, KeyShown, Standing, Ticket
from hinged.operations.base import EVERY, LONG_S, Call, operation


class ServerOperations:
    """What is asked of the server."""

    # the job's model is checked where its name is known
    @operation("GET", "/jobs/{job}", role="reader")
    def job(self, job: str) -> Call[JobState]:
        """What became of a job, as the answer that began it names it: "/jobs/..."."""
        return Call(named={"job": job.removeprefix("/jobs/")})

    @operation("GET", "/key", role="reader")
    def key(self) -> Call[KeyShown]:
        """Who asks: the name of the key, its role, its models."""
        return Call()

    @operation("POST", "/tickets", role="reader")
    def ticket(self) -> Call[Ticket]:
        """A ticket for one event stream or one WebSocket in a browser."""
        return Call()

    @operation("GET", "/cluster", role="admin", covers=EVERY)
    def cluster(self) -> Call[ClusterShown]:
        """The servers that share a store, and the owner, epoch and position of each model."""
        return Call()

    @operation("POST", "/cluster/models/{model}/move", role="admin")
    def move(self, model: str, *, to: str) -> Call[Standing]:
        """Let the server at an address have a model; where it stands then."""
        return Call({"to": to}, timeout_s=LONG_S)

    @operation("GET", "/metrics", role="reader", covers=EVERY)
    def metrics(self) -> Call[str]:
        """The server's figures in Prometheus' text format."""
        return Call(text=True)
