"""Decide about examples by what errors cost, and put the examples that a person should see into the pool."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from hinged.service.commands.ask import Command, Offer, hashed
from hinged.service.commands.predict import Serving, check_details, decided_soon, judged, keep_waiting
from hinged.service.commands.ration import CAPACITY, COST, NO_CHANCES, Ration, gains_of
from hinged.service.data.classes import Label
from hinged.service.data.costs import ASK
from hinged.service.data.examples import Details
from hinged.service.data.inputs import Inputs, x_digests
from hinged.service.errors import Conflict
from hinged.service.model.decisions.costs import ASKED
from hinged.service.model.metrics import QUERIED, STREAMED
from hinged.service.model.view import Decided, Published

Array = np.ndarray[Any, Any]

FEW = 100  # maximum number of questions that the event loop itself makes; more questions need a thread
PROMISE, NOVELTY, EXPLORE = "promise", "novelty", "explore"
"""Reasons, in addition to the reasons of ration.py: the set does not have exactly one label, x is novel, or a share of
such decisions is not taken."""


class Deciding(Serving, Protocol):
    """The parts of a loaded model that decisions need."""

    def command(self, command: Command) -> Awaitable[dict[str, Any]]:
        """Execute a command, and return its answer once its events are durable and applied."""


class Verdicts(NamedTuple):
    """Decisions about a batch, row by row.

    decided: the decision values. numbers (m,): the decided classes; ASKED for a question, UNKNOWN if nothing is known.
    costs (m,): expected costs. chances (m, classes): the probabilities; None while they are unknown.
    reasons (m,): the rule that made each decision.
    """

    decided: Decided
    numbers: Array
    costs: Array
    chances: Array | None
    reasons: Array

    @property
    def forced(self) -> Array:
        """Return (m,) whether the row is a question whatever the costs."""
        return np.isin(self.reasons, (PROMISE, NOVELTY))


class DecisionsMade(NamedTuple):
    """The decisions of a state about a batch. Results can be made for any part of the batch.

    ids: the ids that the client gave. questions, alerts: the id of each question in the pool, and of each alert.
    gains: what each row gains that a person should see, whether or not its decision was left. details: what results
    include.
    """

    published: Published
    found: Verdicts
    ids: Sequence[str | None]
    questions: Mapping[int, str]
    alerts: Mapping[int, str]
    gains: Mapping[int, float]
    details: Details

    def part(self, begin: int, end: int) -> list[dict[str, Any]]:
        """Return the results of rows begin to end - 1."""
        published, wanted = self.published, self.details.probabilities
        chances = None if self.found.chances is None else self.found.chances[begin:end]
        named = published.named(chances, end - begin, wanted) if wanted else None
        rows = None if chances is None else chances.tolist()
        numbers, costs = self.found.numbers[begin:end].tolist(), self.found.costs[begin:end].tolist()
        reasons = self.found.reasons[begin:end].tolist()
        more = judged(published, self.found.decided.part(begin, end))
        results = []
        for r, (given, number, cost) in enumerate(zip(self.ids[begin:end], numbers, costs, strict=True)):
            question, row = self.questions.get(begin + r), None if rows is None else rows[r]
            known = question is None and number >= 0
            result: dict[str, Any] = {
                "id": given,
                "decision": published.labels[number] if known else None if question is None else ASK,
                "probability": row[number] if known and row is not None else None,
                "cost": None if math.isnan(cost) else cost,
                "reason": reasons[r],
            }
            if question is not None:
                result["question"] = question
            if begin + r in self.alerts:
                result["alert"] = self.alerts[begin + r]
            if begin + r in self.gains:
                result["gain"] = self.gains[begin + r]
            if named is not None:
                result["probabilities"] = named[r]
            results.append(result | more[r])
        return results


def verdicts_of(published: Published, inputs: Inputs) -> Verdicts:
    """Return the decisions of a state about the batch of one request. The state has costs. If it can ask, each row that
    is novel, or whose set of a promise does not have exactly one label, is a question, whatever the costs.
    """
    assert published.costs is not None  # noqa: S101  the caller checks it
    decided, table = published.decide(inputs), published.costs
    usual, m = published.class_probabilities(decided), decided.numbers.size
    chances = None
    if usual is not None and published.chances is not None and published.discerns:
        chances = published.chances.of(decided.columns, usual)
    reasons = np.full(m, NO_CHANCES if chances is None else COST, object)
    if table.ask is not None:
        if decided.sets is not None:
            reasons[np.count_nonzero(decided.sets, axis=1) != 1] = PROMISE
        level = published.configuration.novelty
        if decided.novelty is not None and level is not None:
            reasons[decided.novelty <= level["level"]] = NOVELTY
    if chances is not None:
        numbers, costs = table.decide(chances)
    elif table.ask is None:
        numbers, costs = decided.numbers, np.full(m, np.nan)
    else:
        numbers, costs = np.full(m, ASKED), np.full(m, table.ask)
    found = Verdicts(decided, numbers, costs, chances, reasons)
    forced, ask = found.forced, table.ask or 0.0
    return found._replace(numbers=np.where(forced, np.int32(ASKED), numbers), costs=np.where(forced, ask, costs))


async def decide(
    deciding: Deciding, published: Published, inputs: Inputs, ids: Sequence[str | None], details: Details
) -> DecisionsMade:
    """Decide about inputs with the state for which they were read.

    ids: the id of each row. details: what the answer includes. Raise Conflict for a model without costs, or if the pool
    has an id with another x.
    """
    if published.costs is None:
        raise Conflict('the model has no costs; PATCH them, such as {"costs": {"fraud": {"ok": 50}, "ask": 2}}')
    check_details(published, details)
    found = await decided_soon(deciding, published, inputs, lambda xs: verdicts_of(published, xs))
    found, weights = _explored(published, found, ids)
    limited = _limited(published)
    rows, questions, alerts = _contenders(published, found, limited), dict[int, str](), dict[int, str]()
    gains: Mapping[int, float] = {}
    if rows.size:
        build = partial(_offer, published, found, inputs, ids, rows)
        offer, gains = await asyncio.to_thread(build) if rows.size > FEW else build()
        answer = await deciding.command(offer)
        if isinstance(offer, Ration):
            found = _rationed(found, offer, rows, answer["decisions"])
        for r, number, taken in zip(rows.tolist(), found.numbers[rows].tolist(), offer.ids, strict=True):
            if number == ASKED:
                questions[r] = taken
            elif number in limited:
                alerts[r] = taken
    named = [questions.get(r) or alerts.get(r, given) for r, given in enumerate(ids)]
    sources = [QUERIED if r in questions else STREAMED for r in range(len(ids))]
    await keep_waiting(deciding, published, inputs, named, found.decided, sources, weights)
    deciding.predictions_served += len(inputs)
    return DecisionsMade(published, found, ids, questions, alerts, gains, details)


def _explored(published: Published, found: Verdicts, ids: Sequence[str | None]) -> tuple[Verdicts, Sequence[float]]:
    """Return the verdicts and what each label weighs, after a share of some decisions was not taken. Instead, these
    rows get the class with the least expected cost among the classes without a share or a capacity. A draw is a hash of
    the seed and the id, so a repeated request gets the same decision. Without an id no label comes, so the decision
    stays.
    """
    explore, table = published.configuration.explore, published.costs
    if explore is None:
        return found, ()
    shares = {number: explore[name] for number, name in enumerate(published.names) if name in explore}
    fixed = {*shares, *_limited(published)}
    others = [number for number in range(len(published.names)) if number not in fixed]
    if not shares or not others or found.chances is None or table is None:
        return found, ()
    seed, rows, weights = published.configuration.seed, [], [1.0] * len(ids)
    for r, (given, number) in enumerate(zip(ids, found.numbers.tolist(), strict=True)):
        share = shares.get(number)
        if share is not None and given is not None and hashed(seed, f"explore {given}".encode()) < share * 2.0**64:
            rows.append(r)
            weights[r] = 1.0 / share
    if not rows:
        return found, ()
    costs = table.expected(found.chances[rows])[:, others]
    numbers, least, reasons = found.numbers.copy(), found.costs.copy(), found.reasons.copy()
    numbers[rows], least[rows] = np.array(others)[costs.argmin(axis=1)], costs.min(axis=1)
    reasons[rows] = EXPLORE
    return found._replace(numbers=numbers, costs=least, reasons=reasons), weights


def _contenders(published: Published, found: Verdicts, limited: Sequence[int]) -> Array:
    """Return the rows that a person should see, and the rows whose decisions have a capacity. limited: the classes with
    a capacity.
    """
    asking = published.costs is not None and published.costs.ask is not None  # otherwise ASKED means an unknown class
    rows = found.numbers == ASKED if asking else np.zeros(found.numbers.size, bool)
    return np.flatnonzero(rows | np.isin(found.numbers, limited) if limited else rows)


def _limited(published: Published) -> list[int]:
    """Return the classes whose decisions have a capacity."""
    capacity = published.configuration.capacity or {}
    return [number for number, name in enumerate(published.names) if name in capacity and name != ASK]


def _offer(
    published: Published, found: Verdicts, inputs: Inputs, ids: Sequence[str | None], contenders: Array
) -> tuple[Offer, Mapping[int, float]]:
    """Return the contenders as candidates, and what each decision gains. A row without an id gets a random id."""
    capacity, costs = published.configuration.capacity, _costs(published, found, contenders)
    rationed = _limited(published) + [ASKED] * (ASK in (capacity or {}))
    gains = dict(zip(contenders.tolist(), gains_of(costs, found.numbers[contenders], rationed).tolist(), strict=True))
    rows, places = inputs.take(contenders), contenders.tolist()
    given, digests = [ids[r] or uuid.uuid4().hex for r in places], x_digests(rows)
    labels: list[Label | None] = [None] * len(places)
    if capacity is None:
        return Offer(given, rows, digests, labels, places=places), gains
    ration = Ration(
        given,
        rows,
        digests,
        labels,
        places=places,
        names=published.names,
        best=found.numbers[contenders],
        costs=costs,
        chances=None if found.chances is None else found.chances[contenders],
        forced=found.forced[contenders],
    )
    return ration, gains


def _costs(published: Published, found: Verdicts, rows: Array) -> Array:
    """Return the expected cost of each decision, a question last, for some rows; inf for an impossible decision. Before
    there are probabilities, only a question and the predicted class are possible, and cost the same.
    """
    table = published.costs
    assert table is not None  # noqa: S101  `decide` checks it
    costs = np.full((rows.size, len(published.names) + 1), np.inf)
    if found.chances is not None:
        costs[:, :-1] = table.expected(found.chances[rows])
    else:
        predicted = found.decided.numbers[rows]
        costs[np.flatnonzero(predicted >= 0), predicted[predicted >= 0]] = table.ask or 0.0
    if table.ask is not None:
        costs[:, -1] = table.ask
    return costs


def _rationed(found: Verdicts, ration: Ration, rows: Array, decisions: Array) -> Verdicts:
    """Return the verdicts with the decisions (m,) that were left for the contenders."""
    numbers, costs, reasons = found.numbers.copy(), found.costs.copy(), found.reasons.copy()
    other = np.flatnonzero(decisions != numbers[rows])
    reasons[rows[other]] = CAPACITY
    numbers[rows] = decisions
    changed = decisions[other]
    # ASKED is the last column. Before there are probabilities, only the cost of a question is known.
    known = (changed == ASKED) | ((changed >= 0) & (found.chances is not None))
    costs[rows[other]] = np.where(known, ration.costs[other, np.maximum(changed, ASKED)], np.nan)
    return found._replace(numbers=numbers, costs=costs, reasons=reasons)
