"""Jobs: changes that a model still has to finish: forget, correct, reconfigure, start a challenger.

A job begins with an event of the log, whose position names the job, and ends with another event. So it survives a
crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from hinged.answers import JobKind, JobStage
from hinged.service import limits
from hinged.service.data.configuration import as_written


@dataclass(slots=True)
class Job:
    """A job. at: the position of its event. folds: whether learners have to be retrained from the log."""

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
        """Complete a configuration that was written earlier, so that it compares equal to one that is read."""
        self.configuration = as_written(self.configuration)


class Jobs:
    """The running jobs, and the newest jobs that have ended."""

    def __init__(self) -> None:
        self._by_position: dict[int, Job] = {}

    def __iter__(self) -> Iterator[Job]:
        return iter(self._by_position.values())

    def add(self, job: Job) -> None:
        """Add a job."""
        self._by_position[job.at] = job

    def find(self, at: int) -> Job | None:
        """Return the job that began at this position, if it is known."""
        return self._by_position.get(at)

    def running(self) -> list[Job]:
        """Return the running jobs, oldest first."""
        return [job for job in self if job.state == "running"]

    def settle(self, positions: list[int], result: dict[str, Any], error: str | None) -> None:
        """Note that these jobs have ended."""
        ended = [at for at, job in self._by_position.items() if job.state != "running"]
        # Jobs that end now are kept: a client may wait for them.
        for at in ended[: max(0, len(ended) - limits.JOBS_KEPT)]:
            del self._by_position[at]
        for at in positions:
            job = self._by_position.get(at)
            if job is not None and job.state == "running":
                job.state, job.result, job.error = "failed" if error else "done", result, error

    def state(self) -> list[dict[str, Any]]:
        """Return all jobs as facts."""
        return [asdict(job) for job in self]

    def load(self, facts: list[dict[str, Any]]) -> None:
        """Take over a result of `state`."""
        if len({fact["at"] for fact in facts}) < len(facts):
            raise ValueError("a job is listed twice")
        self._by_position = {fact["at"]: Job(**fact) for fact in facts}
