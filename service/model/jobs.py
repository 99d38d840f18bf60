"""Jobs: unfinished changes of a model, such as forgetting, correcting, reconfiguring or starting a challenger.

A job begins with an event of the log, and the position of this event names the job. Another event ends the job. A job
therefore survives a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hinged.answers import JobKind, JobStage
from hinged.service import limits
from hinged.service.data.configuration import as_written


@dataclass(slots=True)
class Job:
    """A job. at: the position of the event that began it. folds: whether learners must be retrained from the log."""

    at: int
    kind: JobKind
    folds: bool
    number: int | None = None
    configuration: dict[str, Any] | None = None
    shadow: str | None = None
    state: JobStage = "running"
    result: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def __post_init__(self) -> None:
        """Complete a configuration from an earlier version, so that it is equal to the same configuration when that is
        read now.
        """
        self.configuration = as_written(self.configuration)


class Jobs:
    """The running jobs, and the newest of the finished jobs."""

    def __init__(self) -> None:
        self._by_position: dict[int, Job] = {}

    def __iter__(self) -> Iterator[Job]:
        return iter(self._by_position.values())

    def add(self, job: Job) -> None:
        """Add a job."""
        self._by_position[job.at] = job

    def find(self, at: int) -> Job | None:
        """Return the job that began at this position, if the job is still known."""
        return self._by_position.get(at)

    def running(self) -> list[Job]:
        """Return the running jobs, oldest first."""
        return [job for job in self if job.state == "running"]

    def settle(self, positions: list[int], result: dict[str, Any], error: str | None) -> None:
        """Record that these jobs have ended."""
        ended = [at for at, job in self._by_position.items() if job.state != "running"]
        # Keep the jobs that end now, because a client may wait for them.
        for at in ended[: max(0, len(ended) - limits.JOBS_KEPT)]:
            del self._by_position[at]
        for at in positions:
            job = self._by_position.get(at)
            if job is not None and job.state == "running":
                job.state, job.result, job.error = "failed" if error else "done", result, error

    def state(self) -> list[dict[str, Any]]:
        """Return all jobs as facts, which share memory with the jobs."""
        return [{name: getattr(job, name) for name in Job.__slots__} for job in self]

    def load(self, facts: list[dict[str, Any]]) -> None:
        """Restore the jobs from a result of `state`."""
        if len({fact["at"] for fact in facts}) < len(facts):
            raise ValueError("a job is listed twice")
        self._by_position = {fact["at"]: Job(**fact) for fact in facts}
