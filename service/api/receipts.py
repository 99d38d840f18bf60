"""Routes for receipts: the newest head, and proofs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from hinged.operations import ReceiptOperations
from hinged.service.api.serving import Group
from hinged.service.api.snapshots import Position
from hinged.service.api.wire import PathWorker, registry_of
from hinged.service.data.answers import Answer
from hinged.service.engine.worker import Worker
from hinged.service.errors import Conflict, Invalid, NotFound, StoreUnavailable
from hinged.service.model.receipts import Ledger

group = Group("receipts")


@group.serves(ReceiptOperations.head, Conflict)
async def show_head(worker: PathWorker) -> Answer:
    """Show the newest head of the Merkle tree over the model's log, and the position of the event that made it."""
    ledger = await _ledger(worker)
    return {"model": worker.name, "position": ledger.through, "head": ledger.head.shown()}


@group.serves(ReceiptOperations.proofs, Conflict, NotFound, StoreUnavailable)
async def prove(
    worker: PathWorker,
    request: Request,
    position: Annotated[Position | None, Query(description="position of an event: prove its inclusion")] = None,
    example: Annotated[str | None, Query(description="id of an example: prove the inclusion of its event")] = None,
    first: Annotated[Position | None, Query(description="size of an earlier tree: prove the consistency")] = None,
    second: Annotated[Position | None, Query(description="size of the later tree; by default the newest")] = None,
) -> Answer:
    """Prove that an event is in the tree of the newest head, or that the tree of one size begins the tree of another
    size (RFC 9162).
    """
    registry = registry_of(request)
    if sum(each is not None for each in (position, example, first)) != 1 or (second is not None and first is None):
        raise Invalid("give either position, or example, or first, which may have a second")
    ledger = await _ledger(worker)
    answer = {"model": worker.name, "position": ledger.through, "head": ledger.head.shown()}
    if first is not None:
        found = await registry.beside(worker.proofs.consistency, ledger, first, second or ledger.tree.size)
        return {**answer, "consistency": found}
    receipt = await registry.beside(worker.proofs.inclusion, ledger, position, example)
    return {**answer, "receipts": [receipt]}


async def _ledger(worker: Worker) -> Ledger:
    ledger = await worker.read(lambda model: model.receipts)
    if ledger is None:
        raise Conflict(f'model {worker.name} has no receipts yet: "receipts": true in its configuration begins them')
    return ledger
