"""Routes for the results of labelling: answers and their changes, single examples, and the pool's predictions."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Query, Request
from pydantic import with_config
from starlette.responses import Response
from typing_extensions import TypedDict

from hinged.answers import ShownExample
from hinged.operations import ExampleOperations, LabelOperations
from hinged.service.api.changes import changed
from hinged.service.api.labels import Name
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group
from hinged.service.api.wire import SENT, PathWorker, registry_of
from hinged.service.commands.answers import (
    ChangeAnswer,
    ForgetAnswer,
    first_candidates,
    given_answers,
    predicted,
)
from hinged.service.commands.listing import CURSOR, Cursor, ListFilter
from hinged.service.commands.predict import decided_soon
from hinged.service.data.answers import Answer
from hinged.service.data.examples import STRICT, Y
from hinged.service.data.features.catalogue import AnyX
from hinged.service.data.inputs import join_inputs
from hinged.service.data.times import DATE, milliseconds
from hinged.service.edge.access import check_name
from hinged.service.errors import Conflict, Gone, StoreUnavailable

group = Group("labels")


@with_config(STRICT)
class AnswerChange(TypedDict):
    """A new label for a question that the same annotator has already answered."""

    annotator: Name
    y: Y


@group.serves(LabelOperations.answers)
async def list_answers(
    worker: PathWorker,
    annotator: Annotated[
        str | None, Query(min_length=1, max_length=256, description="whose answers; everyone's by default")
    ] = None,
    n: Annotated[int, Query(ge=1, le=1000, description="the most answers to return")] = 50,
) -> Answer:
    """List the answers, newest first, and the figures of each annotator."""
    found = await worker.read(partial(given_answers, annotator=annotator, most=n))
    return {"model": worker.name, "position": worker.published.position, **found}


@group.serves(
    LabelOperations.change_answer,
    Gone,
    StoreUnavailable,
    takes=Shape(AnswerChange, {"annotator": "ann", "y": "rain"}),
    statuses=(200, 202),
)
async def change_answer(
    worker: PathWorker, example: str, request: Request, body: Annotated[AnswerChange, SENT]
) -> Response:
    """Replace an annotator's answer with another label: 200, or 202 with a job that retrains the model."""
    classes_max = registry_of(request).settings.classes_max
    return await changed(worker, await worker.change(ChangeAnswer(example, body["y"], body["annotator"], classes_max)))


@group.serves(LabelOperations.forget_answer, Conflict, StoreUnavailable, statuses=(200, 202))
async def forget_answer(
    worker: PathWorker,
    example: str,
    request: Request,
    annotator: Annotated[str, Query(min_length=1, max_length=256, description="the annotator who gave the answer")],
) -> Response:
    """Forget an example that only this annotator has answered: 200, or 202 with a job. An annotator's key can do this
    only under the annotator's own name.
    """
    check_name(request, annotator)
    return await changed(worker, await worker.change(ForgetAnswer(example, annotator=annotator)))


@group.serves(ExampleOperations.examples, Conflict, StoreUnavailable)
async def list_examples(
    worker: PathWorker,
    label: Annotated[str | None, Query(description="a label as it stands in scores; all labels by default")] = None,
    annotator: Annotated[
        str | None, Query(min_length=1, max_length=256, description="an annotator who gave a label")
    ] = None,
    begin: Annotated[str | None, Query(alias="from", pattern=DATE, description="learned at this time or later")] = None,
    end: Annotated[str | None, Query(alias="to", pattern=DATE, description="learned before this time")] = None,
    cursor: Annotated[str | None, Query(pattern=CURSOR, description="`next` of the page before")] = None,
    n: Annotated[int, Query(ge=1, le=1000, description="the most examples to return")] = 100,
    x: Annotated[bool, Query(description="whether each example has its x and its weight")] = False,
) -> Answer:
    """List the learned examples, oldest first, one page at a time, with labels, answers, predictions and times."""
    from_ms, to_ms = (
        None if text is None else milliseconds(text, name) for text, name in ((begin, "from"), (end, "to"))
    )
    wanted = ListFilter(label, annotator, from_ms, to_ms)
    found = await worker.listing().page(wanted, n, Cursor.parse(cursor), x=x)
    return {"model": worker.name, "position": worker.published.position, **found}


@group.serves(ExampleOperations.example, Gone, answers=ShownExample[AnyX])
async def show_example(worker: PathWorker, example: str) -> Answer:
    """Show one example, learned or in the pool. The answer contains its x and its label if the model or the log still
    has them.
    """
    found = await worker.example(example)
    return {"model": worker.name, "position": worker.published.position, **found}


@group.serves(LabelOperations.candidates)
async def list_candidates(
    worker: PathWorker,
    n: Annotated[int, Query(ge=1, le=1000, description="the most candidates to return")] = 100,
) -> Answer:
    """List the candidates in the pool, oldest first, each with the model's prediction."""
    published, candidates, size = await worker.read(partial(first_candidates, most=n))
    shown = []
    if candidates:
        say = partial(predicted, published, [candidate.id for candidate in candidates])
        found = await decided_soon(worker, published, join_inputs([candidate.x for candidate in candidates]), say)
        shown = [said | candidate.told for said, candidate in zip(found, candidates, strict=True)]
    return {"model": worker.name, "position": published.position, "size": size, "candidates": shown}
