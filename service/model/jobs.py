"""What a model still has to do: forgetting, correcting, another configuration, a challenger.

A job begins with an event of the log, whose position names it, and ends with another. So it survives a crash.
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
    """One of them. at: the position of its event. folds: whether learners are to be taught anew from the log."""

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
        """One that was written earlier is asked for again, and changed, as it is read."""
        self.configuration = as_written(self.configuration)


class Jobs:
    """Those that run, and the newest that have ended."""

    def __init__(self) -> None:
        self._by_position: dict[int, Job] = {}

    def __iter__(self) -> Iterator[Job]:
        return iter(self._by_position.values())

    def add(self, job: Job) -> None:
        """One more."""
        self._by_position[job.at] = job

    def find(self, at: int) -> Job | None:
        """The job that began there."""
        return self._by_position.get(at)

    def running(self) -> list[Job]:
        """Those that have not ended, oldest first."""
        return [job for job in self if job.state == "running"]

    def settle(self, positions: list[int], result: dict[str, Any], error: str | None) -> None:
        """These have ended."""
        ended = [at for at, job in self._by_position.items() if job.state != "running"]
        for at in ended[: max(0, len(ended) - limits.JOBS_KEPT)]:  # not yet those that end now: somebody waits for them
            del self._by_position[at]
        for at in positions:
            job = self._by_position.get(at)
            if job is not None and job.state == "running":
                job.state, job.result, job.error = "failed" if error else "done", result, error

    def state(self) -> list[dict[str, Any]]:
        """All of it as facts."""
        return [asdict(job) for job in self]

    def load(self, facts: list[dict[str, Any]]) -> None:
        """Take over a state of `state`."""
        if len({fact["at"] for fact in facts}) < len(facts):
            raise ValueError("a job is there twice")
        self._by_position = {fact["at"]: Job(**fact) for fact in facts}
