"""The pool: candidates for labelling, the leases on them, and the labels collected so far.

A lease is open until it expires, or is released, skipped or answered. No code here reads a clock: whether a lease is
open depends on the time of an event. Candidates stay in the order in which they were offered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np

from hinged.frames import BadFrame
from hinged.service import limits
from hinged.service.data.classes import Label, label_key
from hinged.service.data.inputs import (
    Inputs,
    Refit,
    inputs_state,
    join_inputs,
    read_inputs,
    refitted,
)
from hinged.solvers.core.states import StateReader

Array = np.ndarray[Any, Any]

EXPLORE = "explore"
RANDOM = "random"


@dataclass(slots=True)
class Lease:
    """A candidate lent to an annotator. score: the candidate's distance from the boundary at that time; None if fewer
    than two classes were known.

    skipped: for whom the candidate was skipped, "me" or "all". None if the candidate was not skipped.
    """

    token: str
    annotator: str
    expires_ms: int
    reason: str
    score: float | None
    length_ms: int
    closed: bool = False
    skipped: Literal["me", "all"] | None = None

    def open_at(self, now_ms: int) -> bool:
        """Return whether the lease is still open."""
        return not self.closed and self.expires_ms > now_ms

    @property
    def source(self) -> int:
        """Return why the label was asked for: 1 if the candidate was chosen, 2 if it was drawn at random (see
        metrics.py).
        """
        return 2 if self.reason in (EXPLORE, RANDOM) else 1


@dataclass(slots=True)
class Candidate:
    """An example without a label. label: a known label, which is used for selection alone. x: a batch of one row.

    show: JSON that people see instead of x. None means x itself. Learning ignores `show`.
    """

    id: str
    x: Inputs
    digest: bytes
    label: Label | None = None
    show: Any = None
    leases: list[Lease] = field(default_factory=list)
    votes: list[tuple[str, Label]] = field(default_factory=list)
    skipped_by: list[str] = field(default_factory=list)
    skipped_by_all: bool = False

    @property
    def told(self) -> dict[str, Any]:
        """Return the `show` part of answers that list this candidate."""
        return {} if self.show is None else {"show": self.show}

    def open_leases(self, now_ms: int) -> list[Lease]:
        """Return the leases that are open."""
        return [lease for lease in self.leases if lease.open_at(now_ms)]

    def voted(self, annotator: str) -> bool:
        """Return whether this annotator has given a label."""
        return any(voter == annotator for voter, _ in self.votes)

    @property
    def disputed(self) -> bool:
        """Return whether annotators have given different labels."""
        return len({label_key(label) for _, label in list(self.votes)}) > 1

    def may_be_asked(self, annotator: str | None, now_ms: int, overlap: int) -> bool:
        """Return whether the candidate may be leased to an annotator (None: to any new annotator)."""
        if self.skipped_by_all:
            return False
        held = [lease for lease in self.open_leases(now_ms) if not self.voted(lease.annotator)]
        if len(held) + len(self.votes) >= self._most(overlap):
            return False
        return annotator is None or not (
            annotator in self.skipped_by or self.voted(annotator) or any(x.annotator == annotator for x in held)
        )

    def may_be_taken_back(self, lease: Lease, now_ms: int, overlap: int) -> bool:
        """Return whether the skipped lease may be opened again."""
        if any(other.skipped == "all" for other in self.leases if other is not lease):
            return False
        held = [x for x in self.open_leases(now_ms) if not self.voted(x.annotator)]
        mine = self.voted(lease.annotator) or any(x.annotator == lease.annotator for x in held)
        return not mine and len(held) + len(self.votes) < self._most(overlap)

    def _most(self, overlap: int) -> int:
        """Return the maximum number of annotators for the candidate. If `overlap` labels do not decide, this is one
        more than the number of labels so far.
        """
        return max(overlap, len(self.votes) + 1)

    @property
    def source(self) -> int:
        """Return why the label came: the source of the newest lease, or 0 without a lease (see metrics.py)."""
        return self.leases[-1].source if self.leases else 0


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """An answered request for labels: a digest of its contents, and the tokens of its leases."""

    fingerprint: str
    tokens: list[str]


class Pool:
    """A pool of at most `most` candidates."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.answered = 0  # number of candidates whose label came through a lease
        self.disagreed = 0  # number of those candidates for which annotators gave different labels
        self._by_id: dict[str, Candidate] = {}
        self._lent: dict[str, Candidate] = {}  # candidates that were ever leased; a linear search suffices
        self._by_token: dict[str, str] = {}
        self._asked: OrderedDict[str, AnsweredQuery] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._by_id.values())

    # -- reading --------------------------------------------------------------------------------------------------

    def find(self, given: str) -> Candidate | None:
        """Return the candidate of an id, if it is in the pool."""
        return self._by_id.get(given)

    def askable(self, annotator: str | None, now_ms: int, overlap: int) -> list[Candidate]:
        """Return the candidates that may be leased to an annotator (None: to any new annotator)."""
        barred = [c.id for c in self._lent.values() if not c.may_be_asked(annotator, now_ms, overlap)]
        if not barred:
            return list(self)
        left = self._by_id.copy()
        for given in barred:
            del left[given]
        return list(left.values())

    def find_lease(self, token: str) -> tuple[Candidate, Lease] | None:
        """Return a lease on a candidate that is still in the pool, even if the lease is no longer open."""
        given = self._by_token.get(token)
        if given is None:
            return None
        candidate = self._by_id[given]
        return candidate, next(lease for lease in candidate.leases if lease.token == token)

    def held_by(self, annotator: str, now_ms: int) -> list[tuple[Candidate, Lease]]:
        """Return an annotator's open leases, in the order in which they began."""
        found = [self.lease(token) for token in self._by_token]
        return [(c, lease) for c, lease in found if lease.annotator == annotator and lease.open_at(now_ms)]

    def asked(self, annotator: str, request_id: str) -> AnsweredQuery | None:
        """Return the stored answer to a request, if there is one."""
        return self._asked.get(_request_key(annotator, request_id))

    def room_for(self, ids: Sequence[str], now_ms: int) -> tuple[list[str], list[str]]:
        """Return the new ids for which there is room, and the ids of candidates that are removed to make room. The
        oldest candidates without leases or labels are removed.
        """
        idle = (c.id for c in self if not c.votes and not c.open_leases(now_ms))
        needed = max(0, len(self) + len(ids) - self.most)
        leaving = list(islice(idle, needed))
        # If that does not free enough room, only the newest of the offered candidates are added.
        return list(ids[needed - len(leaving) :]), leaving

    def figures(self, now_ms: int) -> dict[str, Any]:
        """Return the pool's figures.

        conflicts: the number of candidates whose labels differ and that still wait for another label. disagreement: the
        share of answered candidates that had different labels.
        """
        return {
            "size": len(self),
            "size_max": self.most,
            "leased": self.leased(now_ms),
            "votes": sum(len(c.votes) for c in self._lent.values()),
            "conflicts": self.conflicts,
            "answered": self.answered,
            "disagreement": self.disagreed / self.answered if self.answered else None,
        }

    @property
    def conflicts(self) -> int:
        """Return how many candidates have different labels so far. May be read while the pool changes."""
        return sum(candidate.disputed for candidate in list(self._lent.values()))

    def leased(self, now_ms: int) -> int:
        """Return how many candidates have an open lease. May be called while the pool changes."""
        return sum(bool(c.open_leases(now_ms)) for c in list(self._lent.values()))

    # -- changing -------------------------------------------------------------------------------------------------

    def show(self, given: str, show: Any) -> None:
        """Set what people see instead of a candidate's x."""
        self._by_id[given].show = show

    def offer(self, candidates: Sequence[Candidate], now_ms: int) -> None:
        """Add new candidates. If there is no room, remove the oldest candidates without leases or labels."""
        staying, leaving = self.room_for([c.id for c in candidates], now_ms)
        for given in leaving:
            self._remove(given)
        kept = set(staying)
        self._by_id.update((c.id, c) for c in candidates if c.id in kept)

    def lend(self, given: str, lease: Lease, now_ms: int) -> None:
        """Lease a candidate. Of the candidate's ended leases, only the newest are kept."""
        candidate = self._lent[given] = self._by_id[given]
        candidate.leases.append(lease)
        self._by_token[lease.token] = given
        ended = [old for old in candidate.leases if not old.open_at(now_ms)]
        for old in ended[: max(0, len(ended) - limits.LEASES_KEPT)]:
            del self._by_token[old.token]
            candidate.leases.remove(old)

    def remember(self, annotator: str, request_id: str, asked: AnsweredQuery) -> None:
        """Store the answer to a request, for a repetition of the request."""
        self._asked[_request_key(annotator, request_id)] = asked
        while len(self._asked) > limits.REQUESTS_KEPT:
            self._asked.popitem(last=False)

    def skip(self, token: str, *, for_all: bool) -> None:
        """Close a lease. Its annotator is not asked about the candidate again. With `for_all`, no annotator is asked
        about the candidate.
        """
        candidate, lease = self.lease(token)
        lease.closed = True
        lease.skipped = "all" if for_all else "me"
        candidate.skipped_by_all |= for_all
        if not for_all and lease.annotator not in candidate.skipped_by:
            candidate.skipped_by.append(lease.annotator)
            del candidate.skipped_by[: -limits.SKIPPED_KEPT]

    def unskip(self, token: str, expires_ms: int) -> None:
        """Open a skipped lease again until expires_ms, as if it had never been skipped."""
        candidate, lease = self.lease(token)
        lease.closed, lease.skipped, lease.expires_ms = False, None, expires_ms
        candidate.skipped_by_all = any(other.skipped == "all" for other in candidate.leases)
        candidate.skipped_by = [who for who in candidate.skipped_by if who != lease.annotator]

    def release(self, token: str) -> None:
        """Close a lease."""
        self.lease(token)[1].closed = True

    def renew(self, token: str, expires_ms: int) -> None:
        """Extend a lease until expires_ms."""
        self.lease(token)[1].expires_ms = expires_ms

    def vote(self, token: str, label: Label) -> None:
        """Record an annotator's label. The new label replaces an earlier label of the same annotator.

        This closes the lease, and any later lease of the annotator on the candidate.
        """
        candidate, lease = self.lease(token)
        for held in candidate.leases:
            held.closed |= held.annotator == lease.annotator
        vote, before = (lease.annotator, label), [voter for voter, _ in candidate.votes]
        if lease.annotator in before:
            candidate.votes[before.index(lease.annotator)] = vote
        else:
            candidate.votes.append(vote)

    def answer(self, given: str) -> None:
        """Remove a candidate whose label was learned, and count the answer."""
        candidate = self._by_id.get(given)
        if candidate is None:
            return
        if candidate.leases:
            self.answered += 1
            self.disagreed += candidate.disputed
        self._remove(given)

    def forget(self, given: str) -> None:
        """Remove a candidate. The candidate's labels do not count."""
        if given in self._by_id:
            self._remove(given)

    def limit(self, most: int, now_ms: int) -> None:
        """Limit the number of candidates. Candidates without leases or labels are removed first, in each case the
        oldest first.
        """
        self.most = most
        for given in self.room_for([], now_ms)[1]:
            self._remove(given)
        for given in list(self._by_id)[: max(0, len(self) - most)]:
            self._remove(given)

    def change(self, refit: Refit) -> None:
        """Convert every x to another form. Remove candidates whose x cannot be converted."""
        for candidate in list(self):
            try:
                candidate.x, candidate.digest = refitted(candidate.x, candidate.digest, refit)
            except ValueError:
                self._remove(candidate.id)

    def lease(self, token: str) -> tuple[Candidate, Lease]:
        """Return a lease that the log names, with its candidate."""
        found = self.find_lease(token)
        if found is None:
            raise ValueError("the log names a lease that was never given")
        return found

    def _remove(self, given: str) -> None:
        self._lent.pop(given, None)
        for lease in self._by_id.pop(given).leases:
            del self._by_token[lease.token]

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""
        candidates = list(self)
        facts: dict[str, Any] = {
            "answered": self.answered,
            "disagreed": self.disagreed,
            "asked": [[key, asked.fingerprint, asked.tokens] for key, asked in self._asked.items()],
            "tokens": list(self._by_token),
            "candidates": [
                {
                    "id": c.id,
                    "label": c.label,
                    "leases": [_lease_facts(lease) for lease in c.leases],
                    "votes": c.votes,
                    "skipped_by": c.skipped_by,
                    "skipped_by_all": c.skipped_by_all,
                    **c.told,
                }
                for c in candidates
            ],
        }
        if not candidates:
            return facts, {}
        inputs, arrays = inputs_state(join_inputs([c.x for c in candidates]))
        return facts | inputs, arrays | {"digests": np.frombuffer(b"".join(c.digest for c in candidates), np.uint8)}

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Restore the pool from a result of `state`."""
        self.answered, self.disagreed = facts["answered"], facts["disagreed"]
        self._asked = OrderedDict(
            (key, AnsweredQuery(fingerprint, tokens)) for key, fingerprint, tokens in facts["asked"]
        )
        self._by_id.clear()
        if facts["candidates"]:
            inputs, n = read_inputs(facts, arrays), len(facts["candidates"])
            if not len(inputs) == n == len({c["id"] for c in facts["candidates"]}):
                raise BadFrame(f"{n} candidates must have as many x and different ids, got {len(inputs)} x")
            digests = StateReader(arrays).take("digests", np.uint8, (16 * n,)).tobytes()
            for r, c in enumerate(facts["candidates"]):
                self._by_id[c["id"]] = Candidate(
                    id=c["id"],
                    x=inputs.part(r, r + 1),
                    digest=digests[16 * r : 16 * (r + 1)],
                    label=c["label"],
                    show=c.get("show"),
                    leases=[Lease(**lease) for lease in c["leases"]],
                    votes=[(annotator, label) for annotator, label in c["votes"]],
                    skipped_by=c["skipped_by"],
                    skipped_by_all=c["skipped_by_all"],
                )
        candidate_of = {lease.token: c.id for c in self for lease in c.leases}
        if sorted(facts["tokens"]) != sorted(lease.token for c in self for lease in c.leases):
            raise BadFrame("the tokens differ from the leases' tokens")
        if len(candidate_of) < len(facts["tokens"]):
            raise BadFrame("a token is listed twice")
        self._by_token = {token: candidate_of[token] for token in facts["tokens"]}
        self._lent = {c.id: c for c in self if c.leases}


def _lease_facts(lease: Lease) -> dict[str, Any]:
    return {name: value for name, value in asdict(lease).items() if name != "skipped" or value is not None}


def _request_key(annotator: str, request_id: str) -> str:
    return label_key(annotator) + label_key(request_id)
