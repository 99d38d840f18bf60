"""Prediction, for every way into the server: HTTP, WebSocket frames and other protocols.

Predictions use the state published last and do not wait for learning. To explain predictions by support vectors, the
server asks the model itself between two changes. A prediction with an id waits for its label.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from hinged.service.commands.ask import Wish
from hinged.service.commands.explain import explain
from hinged.service.data.examples import Details, Wanted
from hinged.service.data.inputs import Inputs, Records, sizes_of, x_digests
from hinged.service.data.slices import SPAN_VALUES, Slices, sliced
from hinged.service.errors import Invalid
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.model import Model
from hinged.service.model.pending import Made, Prediction
from hinged.service.model.view import Decided, Intervals, Published
from hinged.solvers.core.turns import GATHERED_WORK

Array = np.ndarray[Any, Any]
T = TypeVar("T")

# If a prediction needs more multiplications than this (about a millisecond), it runs on a thread, so that the event
# loop stays free. Turning an inner product into a kernel value counts as VALUE_WORK multiplications.
INLINE_WORK_MAX = 5_000_000
VALUE_WORK = 8
# Cost of turning records into rows, in multiplications: of each record, and of each character of its strings.
RECORD_WORK, CHARACTER_WORK = 100_000, 10_000
NO_DETAILS = Details()
INLINE_VALUES_MAX = 20_000  # maximum values of a batch on the event loop; larger batches need a thread
KEPT_NUMBERS = 1_000  # numbers of a row that could be copied in the time that a prediction takes to be kept, 10 us
WISHES = 500  # number of predictions for which label wishes are computed in one step of half a millisecond


class Serving(Protocol):
    """The parts of a loaded model that predictions need."""

    predictions_served: int

    @property
    def published(self) -> Published:
        """Return the state that predictions read."""

    @property
    def readers(self) -> Executor:
        """Return the executor for work that would take too long on the event loop."""

    def read(self, question: Callable[[Model], Any]) -> Awaitable[Any]:
        """Pass the model itself to `question` between two changes, and return the result."""

    def wishes(self, ids: Sequence[str | None], doubtful: Sequence[bool]) -> list[Wish]:
        """Return whether the server asks for the label of each prediction."""

    async def keep(self, predictions: list[Made]) -> None:
        """Store predictions that wait for their labels."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of a state for a batch. Results can be made for any part of the batch.

    ids: the ids that the client gave. details: what results include. wishes: whether the server asks for each label;
    None without ids. support_vectors: for each row, the support vectors that contribute to its score; None if the
    caller did not ask for them.
    """

    published: Published
    decided: Decided
    ids: Sequence[str | None] | None
    wishes: list[Wish] | None
    details: Details
    support_vectors: list[list[dict[str, Any]]] | None
    intervals: Intervals | None
    p_values: Array | None

    def part(self, begin: int, end: int) -> list[dict[str, Any]]:
        """Return the results of rows begin to end - 1. The caller gave ids."""
        whole = begin == 0 and end >= self.decided.numbers.size
        published, decided = self.published, self.decided if whole else self.decided.part(begin, end)
        rows = zip(
            self.ids[begin:end] if self.ids else (),
            decided.numbers.tolist(),
            decided.probabilities.tolist(),
            published.scores(decided),
            self.wishes[begin:end] if self.wishes else (),
            strict=True,
        )
        found: list[dict[str, Any]] = [
            {
                "id": given,
                "prediction": None if number == UNKNOWN else published.labels[number],
                "probability": None if math.isnan(chance) else chance,
                "scores": scores,
                "label": {"wanted": wish.wanted, "probability": wish.probability, "reason": wish.reason},
            }
            for given, number, chance, scores, wish in rows
        ]
        more: dict[str, Sequence[Any]] = {}
        if self.details.probabilities:
            more["probabilities"] = published.probabilities(decided, self.details.probabilities)
        if self.intervals is not None:
            more["intervals"] = published.intervals(decided, self.intervals)
        if self.details.conformal:
            p_values = None if self.p_values is None else self.p_values[begin:end]
            more["p_values"] = published.named(p_values, len(found), wanted=True)
        if self.support_vectors is not None:
            more["support_vectors"] = self.support_vectors[begin:end]
        for name, column in more.items():
            for result, value in zip(found, column, strict=True):
                result[name] = value
        for row, outside in decided.outside.items():
            found[row]["outside"] = outside
        for result, judgement in zip(found, judged(published, decided), strict=True):
            result.update(judgement)
        return found


def judged(published: Published, decided: Decided) -> list[dict[str, Any]]:
    """Return what the promise and the novelty of the model add to the result of each row."""
    found: list[dict[str, Any]] = [{} for _ in range(decided.numbers.size)]
    promise = published.promise
    if promise is not None and decided.sets is not None:
        lacking = {"lacking": promise.lacking} if promise.lacking else {}
        for result, labels in zip(found, promise.of(decided.sets), strict=True):
            result |= {"set": labels, **lacking}
    if decided.novelty is not None:
        for result, p_value in zip(found, decided.novelty.tolist(), strict=True):
            result["novelty"] = None if math.isnan(p_value) else p_value
    return found


async def make_decisions(
    serving: Serving,
    published: Published,
    inputs: Inputs,
    ids: Sequence[str | None] | None = None,
    details: Details = NO_DETAILS,
) -> Decisions:
    """Predict inputs with the state for which they were read. A different state may have a different kernel or
    precision.

    ids: the id of each row; None if no labels will come.
    details: what the answer includes. If it includes what only the model itself can tell, the state must be the model's
    state between two changes. Raise Invalid for a solver that cannot tell it.
    """
    because = intervals = p_values = None
    check_details(published, details)
    if details.of_the_model:
        asked = partial(explain, inputs=inputs, details=details)
        published, decided, because, intervals, p_values = await serving.read(asked)
        doubtful = _doubtful(published, decided, ids)
    else:
        decided, doubtful = await decided_soon(serving, published, inputs, partial(_decided, published, ids))
    wishes = None
    if ids is not None:
        few = len(ids) <= WISHES
        wishes = serving.wishes(ids, doubtful) if few else await sliced(_wishes(serving, ids, doubtful))
        sources, chances = [wish.source for wish in wishes], [wish.chance for wish in wishes]
        await keep_waiting(serving, published, inputs, ids, decided, sources, chances=chances)
    serving.predictions_served += len(inputs)  # count only now: if storing the predictions fails, nothing is answered
    return Decisions(published, decided, ids, wishes, details, because, intervals, p_values)


def _decided(published: Published, ids: Sequence[str | None] | None, inputs: Inputs) -> tuple[Decided, list[bool]]:
    decided = published.decide(inputs)
    return decided, _doubtful(published, decided, ids)


def _doubtful(published: Published, decided: Decided, ids: Sequence[str | None] | None) -> list[bool]:
    """Return whether each label is doubtful; nothing if no labels will come."""
    return [] if ids is None else published.doubtful(decided.columns).tolist()


def check_details(published: Published, details: Details) -> None:
    """Refuse the name of a class that can never come. A class that may still come has an unknown probability."""
    if published.configuration.classes is None:
        return
    for part in ("probabilities", "intervals"):
        wanted: Wanted = getattr(details, part)
        for name in () if isinstance(wanted, bool) else wanted:
            if name not in published.names:
                known = ", ".join(published.names)
                raise Invalid(f"{part}: the model's declared classes are {known}, got {name[:80]}")


def _wishes(serving: Serving, ids: Sequence[str | None], doubtful: list[bool]) -> Slices[list[Wish]]:
    found: list[Wish] = []
    for begin in range(0, len(ids), WISHES):
        found += serving.wishes(ids[begin : begin + WISHES], doubtful[begin : begin + WISHES])
        yield
    return found


async def decided_soon(serving: Serving, published: Published, inputs: Inputs, work: Callable[[Inputs], T]) -> T:
    """Run work on decision values. Short work runs on the event loop, longer work on a thread of the model."""
    values, characters = published.configuration.features.sizes(inputs)
    work_of_all = (values + VALUE_WORK * len(inputs)) * published.size + CHARACTER_WORK * characters
    work_of_all += GATHERED_WORK * published.gathered * len(inputs)
    if isinstance(inputs, Records):
        work_of_all += RECORD_WORK * len(inputs)
    if work_of_all <= INLINE_WORK_MAX and values <= INLINE_VALUES_MAX:
        return work(inputs)
    return await asyncio.get_running_loop().run_in_executor(serving.readers, work, inputs)


async def keep_waiting(
    serving: Serving,
    published: Published,
    inputs: Inputs,
    ids: Sequence[str | None],
    decided: Decided,
    sources: Sequence[int],
    weights: Sequence[float] = (),
    chances: Sequence[float] = (),
) -> None:
    """Store the predictions that have an id until their labels come. sources: how each label will be obtained
    (metrics.py). weights: what each label weighs; empty if each weighs 1. chances: as in Prediction; empty if each is
    0.
    """
    configuration = published.configuration
    named = [r for r, given in enumerate(ids) if given is not None]
    if not named or not configuration.labels.pending_max:
        return
    newest = named[-configuration.labels.pending_max :]
    await serving.keep(await sliced(_pending(published, inputs, ids, newest, decided, sources, weights, chances)))


def _pending(
    published: Published,
    inputs: Inputs,
    ids: Sequence[str | None],
    named: list[int],
    decided: Decided,
    sources: Sequence[int],
    weights: Sequence[float],
    chances: Sequence[float],
) -> Slices[list[Made]]:
    """Make the predictions that wait, in slices. A thread would keep Python's lock for most of the time."""
    made, numbers = [], 0
    promise, sets = published.promise, decided.sets
    for r in named:
        if numbers >= SPAN_VALUES:
            yield
            numbers = 0
        x = inputs.row(r)
        numbers += KEPT_NUMBERS + sizes_of(x)[0]
        prediction = Prediction(
            id=ids[r] or "",
            x=x,
            digest=x_digests(x)[0],
            columns=decided.columns[r].copy(),
            number=int(decided.numbers[r]),
            source=sources[r],
            at_ms=0,  # set by the journal
            promised=b"" if promise is None or sets is None else promise.sent(sets[r]),
            weight=weights[r] if weights else 1.0,
            chance=chances[r] if chances else 0.0,
        )
        made.append(Made(prediction, published.labels))
    return made
