"""The pool: candidates for a label, the leases on them, and the labels collected so far.

A lease is open until it expires, or is released, skipped or answered. Nothing here reads a clock: whether a lease is
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
    """A candidate lent to an annotator. score: its distance from the boundary then, None before a second class.

    skipped: for whom it was skipped, "me" or "all"; None if it was not skipped.
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
        """Return whether its annotator still holds it."""
        return not self.closed and self.expires_ms > now_ms

    @property
    def source(self) -> int:
        """Why its label was asked for: 1 if it was chosen, 2 if it was drawn at random (see metrics.py)."""
        return 2 if self.reason in (EXPLORE, RANDOM) else 1


@dataclass(slots=True)
class Candidate:
    """An example without a label. label: a known label, which is used for selection alone. x: a batch of one.

    show: JSON that people see instead of x; None: x itself. Learning ignores it.
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
        """The `show` part of answers that list this candidate."""
        return {} if self.show is None else {"show": self.show}

    def open_leases(self, now_ms: int) -> list[Lease]:
        """Return the leases that are open."""
        return [lease for lease in self.leases if lease.open_at(now_ms)]

    def voted(self, annotator: str) -> bool:
        """Return whether this annotator has given a label."""
        return any(voter == annotator for voter, _ in self.votes)

    def may_be_asked(self, annotator: str | None, now_ms: int, overlap: int) -> bool:
        """Return whether it may be leased to an annotator (None: to any new annotator)."""
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
        """Return how many annotators may label it: one more than have, if their labels do not decide yet."""
        return max(overlap, len(self.votes) + 1)

    @property
    def source(self) -> int:
        """Why its label came: the source of the newest lease, 0 without a lease (see metrics.py)."""
        return self.leases[-1].source if self.leases else 0


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """An answered request for labels: a digest of its contents, and the tokens of its leases."""

    fingerprint: str
    tokens: list[str]


class Pool:
    """At most `most` candidates."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.answered = 0  # candidates whose label came through a lease
        self.disagreed = 0  # candidates among them whose annotators gave different labels
        self._by_id: dict[str, Candidate] = {}
        self._lent: dict[str, Candidate] = {}  # candidates that were ever leased: few, so they are looked through
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
        """Return a lease on a candidate that is still in the pool, whether open or not."""
        given = self._by_token.get(token)
        if given is None:
            return None
        candidate = self._by_id[given]
        return candidate, next(lease for lease in candidate.leases if lease.token == token)

    def held_by(self, annotator: str, now_ms: int) -> list[tuple[Candidate, Lease]]:
        """Return an annotator's open leases, in the order in which they were given."""
        found = [self.lease(token) for token in self._by_token]
        return [(c, lease) for c, lease in found if lease.annotator == annotator and lease.open_at(now_ms)]

    def asked(self, annotator: str, request_id: str) -> AnsweredQuery | None:
        """Return the kept answer to a request, if there is one."""
        return self._asked.get(_request_key(annotator, request_id))

    def room_for(self, ids: Sequence[str], now_ms: int) -> tuple[list[str], list[str]]:
        """Return the new ids that find room, and the ids of candidates that leave for them: the oldest without leases
        or labels.
        """
        idle = (c.id for c in self if not c.votes and not c.open_leases(now_ms))
        needed = max(0, len(self) + len(ids) - self.most)
        leaving = list(islice(idle, needed))
        # If that is not enough room, the newest of the offered candidates stay.
        return list(ids[needed - len(leaving) :]), leaving

    def figures(self, now_ms: int) -> dict[str, Any]:
        """Return the pool's figures; disagreement: the share of answered candidates with different labels."""
        return {
            "size": len(self),
            "size_max": self.most,
            "leased": self.leased(now_ms),
            "votes": sum(len(c.votes) for c in self._lent.values()),
            "answered": self.answered,
            "disagreement": self.disagreed / self.answered if self.answered else None,
        }

    def leased(self, now_ms: int) -> int:
        """Return how many candidates are under a lease; may be called while the pool changes."""
        return sum(bool(c.open_leases(now_ms)) for c in list(self._lent.values()))

    # -- changing -------------------------------------------------------------------------------------------------

    def show(self, given: str, show: Any) -> None:
        """Set what people see instead of a candidate's x."""
        self._by_id[given].show = show

    def offer(self, candidates: Sequence[Candidate], now_ms: int) -> None:
        """Add new candidates; if there is no room, the oldest without leases or labels leave."""
        staying, leaving = self.room_for([c.id for c in candidates], now_ms)
        for given in leaving:
            self._remove(given)
        kept = set(staying)
        self._by_id.update((c.id, c) for c in candidates if c.id in kept)

    def lend(self, given: str, lease: Lease, now_ms: int) -> None:
        """Lease a candidate. Of its ended leases, the newest are kept."""
        candidate = self._lent[given] = self._by_id[given]
        candidate.leases.append(lease)
        self._by_token[lease.token] = given
        ended = [old for old in candidate.leases if not old.open_at(now_ms)]
        for old in ended[: max(0, len(ended) - limits.LEASES_KEPT)]:
            del self._by_token[old.token]
            candidate.leases.remove(old)

    def remember(self, annotator: str, request_id: str, asked: AnsweredQuery) -> None:
        """Keep a request's answer, for when the request comes again."""
        self._asked[_request_key(annotator, request_id)] = asked
        while len(self._asked) > limits.REQUESTS_KEPT:
            self._asked.popitem(last=False)

    def skip(self, token: str, *, for_all: bool) -> None:
        """Close a lease; its annotator, or nobody, is asked for its candidate again."""
        candidate, lease = self.lease(token)
        lease.closed = True
        lease.skipped = "all" if for_all else "me"
        candidate.skipped_by_all |= for_all
        if not for_all and lease.annotator not in candidate.skipped_by:
            candidate.skipped_by.append(lease.annotator)
            del candidate.skipped_by[: -limits.SKIPPED_KEPT]

    def unskip(self, token: str, expires_ms: int) -> None:
        """Open a skipped lease again, until expires_ms, as if it had never been skipped."""
        candidate, lease = self.lease(token)
        lease.closed, lease.skipped, lease.expires_ms = False, None, expires_ms
        candidate.skipped_by_all = any(other.skipped == "all" for other in candidate.leases)
        candidate.skipped_by = [who for who in candidate.skipped_by if who != lease.annotator]

    def release(self, token: str) -> None:
        """Close a lease."""
        self.lease(token)[1].closed = True

    def renew(self, token: str, expires_ms: int) -> None:
        """Let a lease last until expires_ms."""
        self.lease(token)[1].expires_ms = expires_ms

    def vote(self, token: str, label: Label) -> None:
        """Note an annotator's label, replacing an earlier label of the same annotator.

        Closes the lease, and any later lease of the annotator on the candidate.
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
            self.disagreed += len({label_key(label) for _, label in candidate.votes}) > 1
        self._remove(given)

    def forget(self, given: str) -> None:
        """Remove a candidate; its labels do not count."""
        if given in self._by_id:
            self._remove(given)

    def limit(self, most: int, now_ms: int) -> None:
        """Limit the number of candidates: the oldest without leases or labels leave first, then the oldest."""
        self.most = most
        for given in self.room_for([], now_ms)[1]:
            self._remove(given)
        for given in list(self._by_id)[: max(0, len(self) - most)]:
            self._remove(given)

    def change(self, refit: Refit) -> None:
        """Put every x into another form; candidates whose x cannot take it leave."""
        for candidate in list(self):
            try:
                candidate.x, candidate.digest = refitted(candidate.x, candidate.digest, refit)
            except ValueError:
                self._remove(candidate.id)

    def lease(self, token: str) -> tuple[Candidate, Lease]:
        """Return a lease that the log names, and its candidate."""
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
        """Take over a result of `state`."""
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
