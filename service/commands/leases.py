"""An annotator's commands on a lease, besides answering: extend it, give it back, skip it, take a skip back."""

from __future__ import annotations

from dataclasses import dataclass

from hinged.service.commands.ask import Planned
from hinged.service.data.times import shown_time
from hinged.service.errors import Conflict, NotFound
from hinged.service.model.events.labelling import LeaseReleased, LeaseRenewed, LeaseSkipped, SkipUndone
from hinged.service.model.model import Model
from hinged.service.model.pool import Candidate, Lease


@dataclass(frozen=True, slots=True)
class Renew:
    """A heartbeat: the lease lasts lease_ms from now; None: its original length."""

    token: str
    lease_ms: int | None = None

    def plan(self, model: Model, now_ms: int) -> Planned:
        """NotFound unless the lease is open."""
        candidate, lease = open_lease(model, self.token, now_ms)
        expires_ms = now_ms + (lease.length_ms if self.lease_ms is None else self.lease_ms)
        answer = {"id": candidate.id, "lease": self.token, "expires_at": shown_time(expires_ms)}
        return Planned([LeaseRenewed(self.token, expires_ms, now_ms)], lambda _: answer)


@dataclass(frozen=True, slots=True)
class Release:
    """Give a lease back."""

    token: str

    def plan(self, model: Model, now_ms: int) -> Planned:
        """NotFound unless the lease is open."""
        candidate, _ = open_lease(model, self.token, now_ms)
        return Planned([LeaseReleased(self.token, now_ms)], lambda _: {"id": candidate.id, "released": True})


@dataclass(frozen=True, slots=True)
class Skip:
    """Give a lease back so that its annotator, or nobody, is asked again."""

    token: str
    for_all: bool

    def plan(self, model: Model, now_ms: int) -> Planned:
        """NotFound unless the lease is open."""
        candidate, _ = open_lease(model, self.token, now_ms)
        answer = {"id": candidate.id, "skipped": "all" if self.for_all else "me"}
        return Planned([LeaseSkipped(self.token, self.for_all, now_ms)], lambda _: answer)


@dataclass(frozen=True, slots=True)
class Unskip:
    """Take a skip back: the lease is open again, for its original length."""

    token: str

    def plan(self, model: Model, now_ms: int) -> Planned:
        """NotFound if nothing was skipped under the lease, Conflict if the candidate has been taken otherwise since."""
        found = model.pool.find_lease(self.token)
        if found is None or (found[1].skipped is None and not found[1].open_at(now_ms)):
            raise NotFound("there is no skipped lease with this token")
        candidate, lease = found
        expires_ms = lease.expires_ms if lease.skipped is None else now_ms + lease.length_ms
        answer = {"id": candidate.id, "lease": self.token, "expires_at": shown_time(expires_ms)}
        if lease.skipped is None:  # asked again
            return Planned([], lambda _: answer)
        if not candidate.may_be_taken_back(lease, now_ms, model.configuration.labels.overlap):
            raise Conflict(f"{candidate.id!r} has since been answered, skipped for all, or leased to other annotators")
        return Planned([SkipUndone(self.token, expires_ms, now_ms)], lambda _: answer)


def open_lease(model: Model, token: str, now_ms: int) -> tuple[Candidate, Lease]:
    """Return a lease that is open. NotFound if it is unknown, answered, given back or expired."""
    found = model.pool.find_lease(token)
    if found is None or not found[1].open_at(now_ms):
        raise NotFound("there is no open lease with this token: it was answered, given back, or has expired")
    return found
