"""Commands on a lease, apart from answering: an annotator extends, releases or skips the lease, or undoes a skip."""

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
    """Extend a lease. The lease then lasts lease_ms from now; None means the lease's original duration."""

    token: str
    lease_ms: int | None = None

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound unless the lease is open."""
        candidate, lease = open_lease(model, self.token, now_ms)
        expires_ms = now_ms + (lease.length_ms if self.lease_ms is None else self.lease_ms)
        answer = {"id": candidate.id, "lease": self.token, "expires_at": shown_time(expires_ms)}
        return Planned([LeaseRenewed(self.token, expires_ms, now_ms)], lambda _: answer)


@dataclass(frozen=True, slots=True)
class Release:
    """Release a lease."""

    token: str

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound unless the lease is open."""
        candidate, _ = open_lease(model, self.token, now_ms)
        return Planned([LeaseReleased(self.token, now_ms)], lambda _: {"id": candidate.id, "released": True})


@dataclass(frozen=True, slots=True)
class Skip:
    """Release a lease and skip its candidate. The server does not ask this annotator about the candidate again; with
    `for_all`, the server asks no annotator about it.
    """

    token: str
    for_all: bool

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound unless the lease is open."""
        candidate, _ = open_lease(model, self.token, now_ms)
        answer = {"id": candidate.id, "skipped": "all" if self.for_all else "me"}
        return Planned([LeaseSkipped(self.token, self.for_all, now_ms)], lambda _: answer)


@dataclass(frozen=True, slots=True)
class Unskip:
    """Undo a skip. The lease is open again, for its original duration."""

    token: str

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound if nothing was skipped under the lease, and Conflict if the candidate was
        answered, skipped for all, or leased to other annotators since.
        """
        found = model.pool.find_lease(self.token)
        if found is None or (found[1].skipped is None and not found[1].open_at(now_ms)):
            raise NotFound("there is no skipped lease with this token")
        candidate, lease = found
        expires_ms = lease.expires_ms if lease.skipped is None else now_ms + lease.length_ms
        answer = {"id": candidate.id, "lease": self.token, "expires_at": shown_time(expires_ms)}
        if lease.skipped is None:  # the request is repeated
            return Planned([], lambda _: answer)
        if not candidate.may_be_taken_back(lease, now_ms, model.configuration.labels.overlap):
            raise Conflict(f"{candidate.id!r} has since been answered, skipped for all, or leased to other annotators")
        return Planned([SkipUndone(self.token, expires_ms, now_ms)], lambda _: answer)


def open_lease(model: Model, token: str, now_ms: int) -> tuple[Candidate, Lease]:
    """Return a lease that is open. Raise NotFound if the lease is unknown, answered, released or expired."""
    found = model.pool.find_lease(token)
    if found is None or not found[1].open_at(now_ms):
        raise NotFound("there is no open lease with this token: it was answered, given back, or has expired")
    return found
