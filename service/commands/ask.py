"""Commands that ask for labels: choose candidates from the pool, and decide which annotator labels which candidate.

Each command has a method `plan`, which changes nothing. `plan` returns the events that the command makes for the
model's current state, and the function that makes the answer once the events are applied. Random draws happen here and
are stored in the events, so applying an event draws nothing.

Diversity: within a batch, each question is chosen for being informative and for being unlike the other questions
(Brinker, ICML 2003). A share of the questions, `explore`, is drawn uniformly, because only these questions give an
unbiased accuracy.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from hinged.service.data.classes import Label
from hinged.service.data.examples import show_text
from hinged.service.data.inputs import Inputs, join_inputs
from hinged.service.data.parts import Configuration, Labelling
from hinged.service.data.times import shown_time
from hinged.service.errors import (
    Conflict,
    Gone,
    Invalid,
)
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.labelling import CandidatesLeased, CandidatesOffered, CandidatesShown
from hinged.service.model.model import Model
from hinged.service.model.pool import (
    EXPLORE,
    RANDOM,
    Candidate,
    Lease,
)
from hinged.service.model.view import Published
from hinged.solvers.core.random import random_below
from hinged.solvers.core.rows import Rows
from hinged.solvers.scores.selection import (
    ACTIVE,
    AUTO_CHUNK,
    AUTO_SEARCHED,
    AUTO_WANTED,
    AUTOACTIVE,
    GRADIENT,
    TINY,
    Unseen,
    diverse,
    informativeness,
    is_wanted,
)

Array = np.ndarray[Any, Any]

Answer = Callable[[Model], dict[str, Any]]

NOVELTY = "novelty"
"""Strategy, and reason of questions, while a model with novelty cannot distinguish classes: the strangest x first."""


class Planned(NamedTuple):
    """Events to append, and a function that makes the answer after the model has applied the events."""

    events: list[ModelEvent]
    answer: Answer


class Command(Protocol):
    """A command, which changes a model, or reads a model between two changes."""

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the events and the answer for the model's current state."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Candidates for the pool.

    labels: labels that are already known.
    shows: what people see instead of each x. This list may be empty.
    learned: ids that are in the log although the model no longer keeps their first answers.
    reread: reads the candidates again for a different configuration; raises Invalid if the x does not fit.
    places: the index of each candidate in the request; empty if each example of the request is a candidate.
    """

    ids: list[str]
    inputs: Inputs
    digests: list[bytes]
    labels: list[Label | None]
    shows: Sequence[Any] = ()
    learned: frozenset[str] = frozenset()
    reread: Callable[[Configuration], Offer] | None = None
    places: Sequence[int] = ()

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Offer the new candidates (not in the pool, not learned, each only once), and change what people see of known
        candidates.

        Raise Conflict if the pool has an id with a different x.
        """
        if not model.learner.takes(self.inputs):
            if self.reread is None:
                raise Invalid("the model's configuration has changed since the candidates were read; send them again")
            again = self.reread(model.configuration)
            return replace(self, inputs=again.inputs, digests=again.digests).plan(model, now_ms)
        new: dict[str, int] = {}
        shows: dict[str, Any] = {}
        for given in model.tombstones.known(self.ids):
            place = self._place(self.ids.index(given))
            raise Gone(f"examples[{place}]: the example with id {given!r} was forgotten", index=place, id=given)
        for index, (given, digest) in enumerate(zip(self.ids, self.digests, strict=True)):
            candidate = model.pool.find(given)
            known = candidate.digest if candidate else self.digests[new[given]] if given in new else None
            if known is not None and known != digest:
                place = self._place(index)
                raise Conflict(f"examples[{place}]: the pool has {given!r} with another x", index=place, id=given)
            self._note_shown(index, shows)
            if known is None and given not in self.learned and model.answers.number_of(given) is None:
                new[given] = index
        size = len(model.pool)
        kept, leaving = model.pool.room_for(list(new), now_ms)
        rows = [new[given] for given in kept]
        events: list[ModelEvent] = self._shown_otherwise(model, shows, now_ms)
        if rows:
            events.append(
                CandidatesOffered(
                    kept,
                    self.inputs.take(np.array(rows)),
                    [self.digests[r] for r in rows],
                    [self.labels[r] for r in rows],
                    now_ms,
                    shows=[shows.get(given) for given in kept] if shows.keys() & set(kept) else (),
                )
            )
        added, dropped = len(kept), len(leaving) + len(new) - len(kept)

        def answer(model: Model) -> dict[str, Any]:
            assert len(model.pool) == size + added - len(leaving)  # noqa: S101
            return {"added": added, "size": len(model.pool), "dropped": dropped}

        return Planned(events, answer)

    def _place(self, index: int) -> int:
        """Return the index in the request of a candidate."""
        return self.places[index] if self.places else index

    def _note_shown(self, index: int, shows: dict[str, Any]) -> None:
        """Note what people see of an example; null leaves it unchanged. Raise Conflict if this request said something
        else before.
        """
        given, show = self.ids[index], self.shows[index] if self.shows else None
        if show is not None and show_text(shows.setdefault(given, show)) != show_text(show):
            raise Conflict(
                f"examples[{index}]: {given!r} has another `show` earlier in this request", index=index, id=given
            )

    @staticmethod
    def _shown_otherwise(model: Model, shows: dict[str, Any], now_ms: int) -> list[ModelEvent]:
        """Return the event for candidates in the pool whose `show` changes. Return an empty list if no `show`
        changes.
        """
        there = {given: candidate.show for given in shows if (candidate := model.pool.find(given))}
        other = [given for given, show in there.items() if show_text(show) != show_text(shows[given])]
        return [CandidatesShown(other, [shows[given] for given in other], now_ms)] if other else []


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of an annotator for n questions.

    search: number of candidates to consider.
    request_id: a retry with the same request_id gets the same answer.
    held: the annotator's open leases that the client still has. None means all of them.
    """

    n: int
    annotator: str
    strategy: str
    lease_ms: int
    request_id: str | None
    search: int
    held: tuple[str, ...] | None = None

    @property
    def fingerprint(self) -> str:
        """Return a digest that distinguishes this request from a different request with the same request_id."""
        said: list[Any] = [self.n, self.strategy, self.lease_ms, self.search]
        said += [] if self.held is None else [self.held]
        return hashlib.blake2b(json.dumps(said).encode(), digest_size=8).hexdigest()

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Repeat the open leases that the client still has. Then lease the most informative candidates that no other
        annotator is working on.
        """
        if self.request_id is not None:
            asked = model.pool.asked(self.annotator, self.request_id)
            if asked is not None:
                if asked.fingerprint != self.fingerprint:
                    raise Conflict(f"request_id {self.request_id!r} was used for another request")
                return Planned([], lambda model: self._answer(model, asked.tokens, now_ms))
        open_ones = [lease.token for _, lease in model.pool.held_by(self.annotator, now_ms)]
        again = [token for token in open_ones if self.held is None or token in self.held][: self.n]
        eligible = _eligible(model, self.annotator, now_ms, self.strategy)
        choices = choose(model, eligible, self.n - len(again), self.strategy, self.search)
        leases = [
            {
                "id": choice.candidate.id,
                "token": secrets.token_urlsafe(16),
                "expires_ms": now_ms + self.lease_ms,
                "reason": choice.reason,
                "score": choice.score,
                "length_ms": self.lease_ms,
            }
            for choice in choices
        ]
        tokens = again + [str(lease["token"]) for lease in leases]
        events: list[ModelEvent] = []
        if leases or (self.request_id is not None and again):
            events.append(CandidatesLeased(self.annotator, self.request_id, self.fingerprint, leases, again, now_ms))
        return Planned(events, lambda model: self._answer(model, tokens, now_ms))

    def _answer(self, model: Model, tokens: Sequence[str], now_ms: int) -> dict[str, Any]:
        found = [pair for token in tokens if (pair := model.pool.find_lease(token)) is not None]
        return {"queries": [_question(model, *pair) for pair in found if pair[1].open_at(now_ms)]}


@dataclass(frozen=True, slots=True)
class Peek:
    """Show the next questions and the leases. Nothing changes."""

    n: int
    strategy: str
    search: int

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the answer, without events."""
        choices = choose(model, _eligible(model, None, now_ms, self.strategy), self.n, self.strategy, self.search)
        leased = [
            {"id": c.id, "annotator": x.annotator, "expires_at": shown_time(x.expires_ms), "reason": x.reason}
            for c in model.pool
            for x in c.open_leases(now_ms)
        ]
        answer = {
            "next": [{"id": choice.candidate.id, "score": choice.score, "reason": choice.reason} for choice in choices],
            "leased": leased,
            "pool": model.pool.figures(now_ms),
        }
        return Planned([], lambda _: answer)


@dataclass(frozen=True, slots=True)
class ChosenCandidate:
    """A candidate that was chosen for a question. score: |f(x)|, or None if fewer than two classes are known."""

    candidate: Candidate
    reason: str
    score: float | None


def choose(model: Model, eligible: Sequence[Candidate], n: int, strategy: str, search: int) -> list[ChosenCandidate]:
    """Choose at most n candidates. First come the candidates that have labels and need more. Then come the candidates
    that the strategy prefers among `search` of the rest, drawn at random.
    """
    n = min(n, len(eligible))
    if n <= 0:
        return []
    published = model.published()
    begun = _begun(eligible)[:n] if model.configuration.labels.overlap > 1 else []
    scores = _distances(published, begun)
    # These candidates keep the reason of their first question, so a candidate drawn at random stays in an unbiased
    # sample.
    first = [ChosenCandidate(c, c.leases[0].reason, score) for c, score in zip(begun, scores, strict=True)]
    if len(first) == n:
        return first
    others = [c for c in eligible if not c.votes] if begun else eligible
    return first + _choose_new(model, published, others, n - len(first), strategy, search)


def _begun(eligible: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that already have labels: those with the most labels first, and the oldest first among
    equals.
    """
    return sorted((c for c in eligible if c.votes), key=lambda c: -len(c.votes))


def _choose_new(
    model: Model, published: Published, eligible: Sequence[Candidate], n: int, strategy: str, search: int
) -> list[ChosenCandidate]:
    n = min(n, len(eligible))
    random = np.array([hashed(model.configuration.seed, str(model.position).encode())], np.uint64)
    share = model.configuration.labels.explore * 2**53
    explored = sum(random_below(random, 2**53) < share for _ in range(n))  # type: ignore[no-untyped-call]
    if not published.discerns:  # the model's decision values cannot tell candidates apart
        strategy = RANDOM if published.sample is None else NOVELTY
    unseen = Unseen(len(eligible), random)
    if strategy == RANDOM:
        drawn = unseen.draw(n)
        scores = _distances(published, [eligible[p] for p in drawn])
        return [ChosenCandidate(eligible[p], RANDOM, score) for p, score in zip(drawn, scores, strict=True)]
    unseen.draw(explored)
    at_random = [unseen.remove(place) for place in range(explored - 1, -1, -1)]
    sample = unseen.draw(min(search, unseen.left)) if strategy != AUTOACTIVE else _auto(published, eligible, unseen, n)
    looked_at = _distinct([eligible[p] for p in sample.tolist()], n - explored)
    choices: list[ChosenCandidate] = []
    if looked_at and n > explored:
        rows = published.rows(join_inputs([c.x for c in looked_at]))
        wish, distances = _wish(model, published, strategy, looked_at, rows)
        places = diverse(model.solver.kernel, rows, wish, n - explored)
        choices = [ChosenCandidate(looked_at[p], strategy, distances[p]) for p in places]
    randoms = [eligible[p] for p in at_random]
    scores = _distances(published, randoms)
    return choices + [ChosenCandidate(c, EXPLORE, score) for c, score in zip(randoms, scores, strict=True)]


def _wish(
    model: Model, published: Published, strategy: str, candidates: Sequence[Candidate], rows: Rows
) -> tuple[Array, Sequence[float | None]]:
    """Return how useful each candidate is to a strategy, and the distances from the boundary, None if unknown."""
    if strategy == NOVELTY and published.sample is not None:
        strangeness = published.sample.compare(rows)[0]
        return strangeness / max(strangeness.max(), TINY), [None] * len(candidates)
    columns = published.asking.decision(rows)
    known = [c.label for c in candidates if c.label is not None]
    classes = np.array([model.labels.number(label) for label in known]) if strategy == GRADIENT else None
    return informativeness(strategy, columns, classes), published.distances(columns).tolist()


def _distinct(candidates: list[Candidate], n: int) -> list[Candidate]:
    """Return one candidate for each distinct x, if that leaves n candidates."""
    by_x = {c.digest: c for c in reversed(candidates)}
    return list(by_x.values()) if len(by_x) >= n else candidates


def _auto(published: Published, eligible: Sequence[Candidate], unseen: Unseen, n: int) -> Array:
    """Draw a sample that ends when it contains enough candidates inside the margin: AUTO_WANTED for each question
    (section 4.4 of the LASVM paper).
    """
    sample = unseen.draw(min(AUTO_SEARCHED * n, unseen.left))
    inside = 0
    for begin in range(0, sample.size, AUTO_CHUNK):
        chunk = sample[begin : begin + AUTO_CHUNK]
        columns = published.asking.decision(published.rows(join_inputs([eligible[p].x for p in chunk])))
        inside += int(is_wanted(columns, published.asking.delta).sum())
        if inside >= AUTO_WANTED * n:
            return sample[: begin + chunk.size]
    return sample


def _distances(published: Published, candidates: Sequence[Candidate]) -> list[float | None]:
    if not candidates or not published.discerns:
        return [None] * len(candidates)
    columns = published.asking.decision(published.rows(join_inputs([c.x for c in candidates])))
    return [float(score) for score in published.distances(columns)]


def _eligible(model: Model, annotator: str | None, now_ms: int, strategy: str) -> list[Candidate]:
    found = model.pool.askable(annotator, now_ms, model.configuration.labels.overlap)
    if strategy != GRADIENT:
        return found
    return [c for c in found if c.label is not None and model.labels.number(c.label) is not None]


def _question(model: Model, candidate: Candidate, lease: Lease) -> dict[str, Any]:
    return {
        "id": candidate.id,
        "x": model.configuration.features.shown(candidate.x, 0),
        **candidate.told,
        "lease": lease.token,
        "expires_at": shown_time(lease.expires_ms),
        "score": lease.score,
        "reason": lease.reason,
        **({"disputed": True} if candidate.disputed else {}),
    }


def hashed(seed: int, key: bytes) -> int:
    """Return 64 bits that depend only on the seed and the key."""
    digest = hashlib.blake2b(key, digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little")


SOURCE_OF = {None: 0, ACTIVE: 1, EXPLORE: 2}


class Wish(NamedTuple):
    """The decision whether the server asks for the label of a prediction, with the probability and the reason of the
    decision.

    source: the source under which the label is counted (service/model/metrics.py); 0 without a budget.
    chance: the probability by which the label weighs in estimates; 0 if it does not, because some labels never come.
    """

    wanted: bool
    probability: float
    reason: str | None
    source: int = 0
    chance: float = 0.0


class LabelBudget:
    """Decides which predictions of a stream are worth a label. The budget is a share of all predictions.

    A label is wanted for predictions inside the margin, |f(x)| < 1 + delta / 2, with a probability that respects the
    budget. In addition, a share of explore times budget of all predictions is drawn at random. The share of predictions
    inside the margin is a moving average over about SPAN predictions. A draw is a hash of the seed and the id, so the
    same id always gets the same draw. A prediction without an id is drawn by its running number.
    """

    SPAN = 1000
    PRIOR = 10.0  # predictions that count as inside the margin at the start; with fewer, the server asks too often

    def __init__(self, seed: int, labels: Labelling) -> None:
        self.seed = seed
        self.labels = labels
        self.seen = self.PRIOR
        self.inside = self.PRIOR
        self.nameless = 0

    def wishes(self, ids: Sequence[str | None], doubtful: Sequence[bool]) -> list[Wish]:
        """Return the decision for each prediction, in order."""
        budget = self.labels.budget
        if budget is None:
            return [Wish(inside, float(inside), ACTIVE if inside else None) for inside in doubtful]
        explored, fade, found = self.labels.explore * budget, 1.0 - 1.0 / self.SPAN, []
        for given, inside in zip(ids, doubtful, strict=True):
            self.nameless += given is None
            key = f"#{self.nameless}" if given is None else f"@{given}"
            self.seen, self.inside = self.seen * fade + 1.0, self.inside * fade + inside
            drawn = min(1.0 - explored, (budget - explored) / max(self.inside / self.seen, 1e-9))
            probability = explored + drawn if inside else explored
            draw = hashed(self.seed, key.encode()) / 2**64
            reason = EXPLORE if draw < explored else ACTIVE if draw < probability else None
            chance = probability if explored and reason else 0.0
            found.append(Wish(reason is not None, probability, reason, SOURCE_OF[reason], chance))
        return found
