"""The server itself: its keys, jobs and figures, and the others that share its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hinged.client.exchange import Call, Exchange, exchange, ready, wait_for_change, wait_until_ready
from hinged.client.methods import route
from hinged.client.routes.asking import FINISH_TIMEOUT_S, Asking
from hinged.client.routes.paths import path_of
from hinged.client.shapes import Changed, ClusterShown, JobState, KeyShown, Standing, Ticket

if TYPE_CHECKING:
    from collections.abc import Mapping


class ServerRoutes(Asking):
    """What is asked of the server."""

    @route
    def job(self, job: str) -> Exchange[JobState]:
        """What became of a job, as the answer that began it names it: "/jobs/..."."""
        return self._ask("GET", job if job.startswith("/jobs/") else f"/jobs/{quote(job, safe='')}")

    @route
    def wait(self, answer: Mapping[str, Any], timeout_s: float = FINISH_TIMEOUT_S) -> Exchange[Changed | JobState]:
        """Once the change that was answered so is made: its job, or the answer itself where there is none.

        HingedError with the code `job_failed` says why it was not made, with `not_ready` that it takes longer.
        """
        return wait_for_change(self.url, answer, self.tries_max, timeout_s)

    @route
    def key(self) -> Exchange[KeyShown]:
        """Who asks: the name of the key, its role, its models."""
        return self._ask("GET", "/key")

    @route
    def ticket(self) -> Exchange[Ticket]:
        """A ticket for one event stream or one WebSocket in a browser."""
        return self._ask("POST", "/tickets")

    @route
    def cluster(self) -> Exchange[ClusterShown]:
        """The servers that share a store, and the owner, epoch and position of each model."""
        return self._ask("GET", "/cluster")

    @route
    def move(self, model: str, *, to: str) -> Exchange[Standing]:
        """Let the server at an address have a model; where it stands then."""
        return self._ask("POST", f"/cluster{path_of(model)}/move", {"to": to}, timeout_s=FINISH_TIMEOUT_S)

    @route
    def metrics(self) -> Exchange[str]:
        """The server's figures in Prometheus' text format."""
        return exchange(self.url, Call("GET", "/metrics", text=True), self.tries_max)

    @route
    def ready(self) -> Exchange[bool]:
        """Whether the server takes requests now; raises `unreachable` where nothing listens."""
        return ready(self.url)

    @route
    def wait_until_ready(self, timeout_s: float = 120.0) -> Exchange[bool]:
        """Return as soon as the server is ready, whether it listens already or not."""
        return wait_until_ready(self.url, timeout_s)
