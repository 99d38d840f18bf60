"""Requests to learn: parse and check their bodies, and make their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, cast

from hinged.service.api.dispatch import Brought, Change, Context, Handling, Packed
from hinged.service.commands.planned import LearnRequest, Provenance
from hinged.service.data.answers import Answer, Parts
from hinged.service.data.batches import read_batch
from hinged.service.data.classes import Label, check_labels
from hinged.service.data.examples import (
    Body,
    LabelledExample,
    Raw,
    check_ids,
    digests,
    parse_learn,
    to_inputs,
)
from hinged.service.data.inputs import Inputs, join_long
from hinged.service.data.parts import Configuration
from hinged.service.data.portions import is_long, parse_portions
from hinged.service.data.slices import Slices, at_once, sliced, spans
from hinged.service.edge.access import check_examples, check_role
from hinged.service.edge.keys import Key
from hinged.service.engine.learning import LearnAnswer, Learnt
from hinged.service.engine.worker import Worker
from hinged.service.errors import ServiceError
from hinged.service.settings import Settings

RESULT_VALUES = 12
"""Rough number of values in a result, without the classes. The number decides whether an answer is made at once or in
parts.
"""


async def learn(context: Context, body: Brought) -> Change:
    """Learn the examples of a body."""
    return _change(context, await sliced(_read(context, body)))


def _change(context: Context, request: LearnRequest) -> Change:
    return Change(partial(context.worker.learn, request), partial(shown_learned, context.worker))


def may_bring_x(context: Context, _: Raw) -> bool:
    """Return whether the key may send an x. Bodies of such a key may be parsed together, because the parser need not
    check the key.
    """
    return context.key.plays("writer")


def _read(context: Context, body: Brought) -> Slices[LearnRequest]:
    configuration, settings = context.worker.published.configuration, context.settings
    if isinstance(body, Packed):
        check_role(context.key, "writer")  # each row has an x
        return _batch_request(body.data, configuration, settings)
    return read_request(body, configuration, settings, context.key)


async def learn_together(context: Context, bodies: Sequence[Body]) -> list[Change] | None:
    """Learn the examples of several bodies, which are parsed in one step. Return None if this is not possible: if a
    body has an error, or an example without x or with a lease.
    """
    configuration, settings = context.worker.published.configuration, context.settings
    if not context.key.plays("writer"):
        return None
    try:
        read = [parse_learn(body, settings.batch_examples_max, configuration.features) for body in bodies]
        every = [*chain.from_iterable(read)]
        if not all("x" in example and "lease" not in example for example in every):
            return None
        request = learn_request(b"", every, configuration, settings)
    except ServiceError:
        return None
    changes, begin = [], 0
    for body, examples in zip(bodies, read, strict=True):
        end = begin + len(examples)
        part = LearnRequest(
            request.ids[begin:end],
            request.labels[begin:end],
            cast("Inputs", request.inputs).part(begin, end),
            request.contents[begin:end],
            weights=request.weights[begin:end],
            reread=reader(body, settings),
        )
        changes.append(_change(context, part))
        begin = end
    return changes


LEARNING = Handling(learn, may_bring_x, learn_together)


def read_request(
    body: Body,
    configuration: Configuration,
    settings: Settings,
    key: Key | None = None,
    elsewhere: Sequence[Provenance] = (),
) -> Slices[LearnRequest]:
    """Parse the request of a body. Raise Invalid, or Forbidden if the key may not send the contents of the body."""
    parts: list[LearnRequest] = []

    def take(portion: Body, examples: list[LabelledExample]) -> Slices[None]:
        if key is not None:
            check_examples(key, examples)
        yield
        parts.append(learn_request(portion, examples, configuration, settings, elsewhere))

    yield from parse_portions(body, configuration, settings, parse_learn, take)
    if not is_long(body):
        return parts[0]
    return (yield from _joined(parts, reader(body, settings, elsewhere)))


def _joined(parts: Sequence[LearnRequest], reread: Callable[[Configuration], LearnRequest]) -> Slices[LearnRequest]:
    """Join requests into one request. The joined request is parsed again as a whole."""
    inputs = [part.inputs for part in parts if part.inputs is not None]
    leased, weighted = any(part.leases for part in parts), any(part.weights for part in parts)
    return LearnRequest(
        [given for part in parts for given in part.ids],
        [label for part in parts for label in part.labels],
        (yield from join_long(inputs)) if inputs else None,
        [content for part in parts for content in part.contents],
        [lease for part in parts for lease in part.leases or [None] * len(part.ids)] if leased else (),
        [weight for part in parts for weight in part.weights or [1.0] * len(part.ids)] if weighted else (),
        reread if inputs else None,
        parts[0].elsewhere,
    )


def _batch_request(body: Raw, configuration: Configuration, settings: Settings) -> Slices[LearnRequest]:
    batch = yield from read_batch(body, configuration, settings, labelled=True)
    labels, contents = cast("list[Label]", batch.labels), []
    for begin, end in spans(batch.rows.indptr):
        contents += digests(batch.rows.part(begin, end), labels[begin:end])
        yield

    def reread(configuration: Configuration) -> LearnRequest:
        return at_once(_batch_request(body, configuration, settings))

    return LearnRequest(batch.ids, labels, batch.rows, contents, weights=batch.weights, reread=reread)


def learn_request(
    body: Body,
    examples: list[LabelledExample],
    configuration: Configuration,
    settings: Settings,
    elsewhere: Sequence[Provenance] = (),
) -> LearnRequest:
    """Make a checked request from the parsed examples of a body. Raise Invalid."""
    ids = [example.get("id") for example in examples]
    check_ids(ids)
    labels = [example["y"] for example in examples]
    check_labels(labels)
    leases = [example.get("lease") for example in examples] if any("lease" in example for example in examples) else []
    weighted = any("weight" in example for example in examples)
    weights = [example.get("weight") or 1.0 for example in examples] if weighted else []
    places = [index for index, example in enumerate(examples) if "x" in example]
    if not places:
        return LearnRequest(ids, labels, None, [None] * len(examples), leases, weights, elsewhere=elsewhere)
    inputs = to_inputs([examples[index]["x"] for index in places], configuration, places)
    contents: list[bytes | None] = [*digests(inputs, [labels[index] for index in places])]
    if len(places) < len(examples):
        of_place = dict(zip(places, contents, strict=True))
        contents = [of_place.get(index) for index in range(len(examples))]
    # Keep the body in order to parse it again: the body is much smaller than the parsed examples.
    reread = reader(body, settings, elsewhere)
    return LearnRequest(ids, labels, inputs, contents, leases, weights, reread, elsewhere)


def reader(
    body: Body, settings: Settings, elsewhere: Sequence[Provenance] = ()
) -> Callable[[Configuration], LearnRequest]:
    """Return a function that parses the request of a body again, for a different configuration."""
    return lambda configuration: at_once(read_request(body, configuration, settings, elsewhere=elsewhere))


def shown_learned(worker: Worker, answer: LearnAnswer) -> Answer:
    """Return the answer for examples that were learned."""
    results = Parts(len(answer.results), RESULT_VALUES, partial(_learned, answer.results))
    shown = results.all() if results.short else results
    proved = {"receipts": answer.receipts} if answer.receipts else {}
    return {"model": worker.model.name, "position": answer.position, "results": shown, **proved}


def _learned(learnt: Sequence[Learnt], begin: int, end: int) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for given, prediction, score, duplicate, votes in learnt[begin:end]:
        result: dict[str, Any] = {"id": given, "prediction": prediction, "score": score, "duplicate": duplicate}
        if votes is not None:
            result |= {"collected": votes.collected, "needed": votes.needed}
            if votes.tally:
                result["votes"] = [{"label": label, "count": count} for label, count in votes.tally]
        results.append(result)
    return results
