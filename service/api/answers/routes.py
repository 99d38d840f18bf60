"""Routes for the results of labelling: answers and their changes, single examples, and the pool's predictions."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from hinged.operations import ExampleOperations, LabelOperations
from hinged.service.api.answers.shapes import (
    ANSWER_BODY,
    ANSWERS,
    CANDIDATES,
    EXAMPLE,
    LISTED,
    AnswerChange,
)
from hinged.service.api.changes.routes import changed
from hinged.service.api.changes.shapes import CHANGED
from hinged.service.api.serving import Group
from hinged.service.api.wire import parsed, read_command, registry_of
from hinged.service.commands.answers import (
    ChangeAnswer,
    ForgetAnswer,
    first_candidates,
    given_answers,
    joined,
    predicted,
)
from hinged.service.commands.listing import CURSOR, Cursor, ListFilter
from hinged.service.commands.predict import decided_soon
from hinged.service.data.times import DATE, milliseconds
from hinged.service.edge.access import check_name
from hinged.service.edge.middleware import JSON
from hinged.service.errors import Conflict, Gone, StoreUnavailable

group = Group("labels")


@group.serves(LabelOperations.answers, ANSWERS)
async def list_answers(
    model: str,
    request: Request,
    annotator: Annotated[
        str | None, Query(min_length=1, max_length=256, description="whose answers; everyone's by default")
    ] = None,
    n: Annotated[int, Query(ge=1, le=1000, description="the most answers to return")] = 50,
) -> Response:
    """List the answers, newest first, and the figures of each annotator."""
    worker = registry_of(request).get(model)
    found = await worker.read(partial(given_answers, annotator=annotator, most=n))
    return JSON({"model": model, "position": worker.published.position, **found})


@group.serves(LabelOperations.change_answer, CHANGED, Gone, StoreUnavailable, takes=ANSWER_BODY, statuses=(200, 202))
async def change_answer(model: str, example: str, request: Request) -> Response:
    """Replace an annotator's answer with another label: 200, or 202 with a job that retrains the model."""
    registry = registry_of(request)
    worker, settings = registry.get(model), registry.settings
    body: AnswerChange = parsed(ANSWER_BODY.adapter, await read_command(request))
    command = ChangeAnswer(example, body["y"], body["annotator"], settings.classes_max)
    return await changed(model, worker, await worker.change(command))


@group.serves(LabelOperations.forget_answer, CHANGED, Conflict, StoreUnavailable, statuses=(200, 202))
async def forget_answer(
    model: str,
    example: str,
    request: Request,
    annotator: Annotated[str, Query(min_length=1, max_length=256, description="the annotator who gave the answer")],
) -> Response:
    """Forget an example that only this annotator has answered: 200, or 202 with a job. An annotator's key can do this
    only under the annotator's own name.
    """
    worker = registry_of(request).get(model)
    check_name(request, annotator)
    return await changed(model, worker, await worker.change(ForgetAnswer(example, annotator=annotator)))


@group.serves(ExampleOperations.examples, LISTED, Conflict, StoreUnavailable)
async def list_examples(
    model: str,
    request: Request,
    label: Annotated[str | None, Query(description="a label as it stands in scores; all labels by default")] = None,
    annotator: Annotated[
        str | None, Query(min_length=1, max_length=256, description="an annotator who gave a label")
    ] = None,
    begin: Annotated[str | None, Query(alias="from", pattern=DATE, description="learned at this time or later")] = None,
    end: Annotated[str | None, Query(alias="to", pattern=DATE, description="learned before this time")] = None,
    cursor: Annotated[str | None, Query(pattern=CURSOR, description="`next` of the page before")] = None,
    n: Annotated[int, Query(ge=1, le=1000, description="the most examples to return")] = 100,
    x: Annotated[bool, Query(description="whether each example has its x and its weight")] = False,
) -> Response:
    """List the learned examples, oldest first, one page at a time, with labels, answers, predictions and times."""
    worker = registry_of(request).get(model)
    from_ms, to_ms = (
        None if text is None else milliseconds(text, name) for text, name in ((begin, "from"), (end, "to"))
    )
    wanted = ListFilter(label, annotator, from_ms, to_ms)
    found = await worker.listing().page(wanted, n, Cursor.parse(cursor), x=x)
    return JSON({"model": model, "position": worker.published.position, **found})


@group.serves(ExampleOperations.example, EXAMPLE, Gone)
async def show_example(model: str, example: str, request: Request) -> Response:
    """Show one example, learned or in the pool. The answer contains its x and its label if the model or the log still
    has them.
    """
    worker = registry_of(request).get(model)
    found = await worker.example(example)
    return JSON({"model": model, "position": worker.published.position, **found})


@group.serves(LabelOperations.candidates, CANDIDATES)
async def list_candidates(
    model: str,
    request: Request,
    n: Annotated[int, Query(ge=1, le=1000, description="the most candidates to return")] = 100,
) -> Response:
    """List the candidates in the pool, oldest first, each with the model's prediction."""
    worker = registry_of(request).get(model)
    published, candidates, size = await worker.read(partial(first_candidates, most=n))
    shown = []
    if candidates:
        say = partial(predicted, published, [candidate.id for candidate in candidates])
        found = await decided_soon(worker, published, joined(candidates), say)
        shown = [said | candidate.told for said, candidate in zip(found, candidates, strict=True)]
    return JSON({"model": model, "position": published.position, "size": size, "candidates": shown})
