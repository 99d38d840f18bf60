"""Seal the events of an append, and sign the head of the tree with them. There is one signature for each append."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hinged.answers import Receipt
from hinged.extras import needed
from hinged.service.errors import Invalid
from hinged.service.model.events.receipts import EventsSealed
from hinged.service.model.events.states import EventSetAside, ModelRolledBack
from hinged.service.model.model import Model
from hinged.service.model.receipts import SALT_BYTES, Head, Leaves, Ledger, Tree, commitment_of, leaves_of
from hinged.service.store.base import Event, Store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@cache
def signing_key(file: Path | None) -> Ed25519PrivateKey | None:
    """Return the key in a PEM file. Raise Invalid if it contains no Ed25519 key without a password."""
    if file is None:
        return None
    with needed("receipts", "HINGED_RECEIPT_KEY"):
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise Invalid(f"HINGED_RECEIPT_KEY: {file} cannot be read: {error}") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise Invalid(f"HINGED_RECEIPT_KEY: {file} must contain an Ed25519 key, got {type(key).__name__}")
    return key


def receipt_of(event: EventsSealed, position: int, leaves: Leaves, head: Head) -> Receipt:
    """Return the receipt of an event that `event` has sealed, for a head of the tree of these leaves."""
    offset = position - event.first
    index = event.before.size + offset
    return {
        "position": position,
        "kind": event.kinds[offset],
        "digest": event.commitments[offset].hex(),
        "index": index,
        "path": [node.hex() for node in leaves.path(index, head.size)],
        "head": head.shown(),
    }


def receipts_of(event: EventsSealed, positions: Iterable[int]) -> list[Receipt]:
    """Return the receipts of events that `event` has sealed, for its own head."""
    leaves = Leaves(event.before, event.leaves)
    return [receipt_of(event, position, leaves, event.head) for position in positions]


def _new(name: str, through: int, at_ms: int) -> Ledger:
    """Return a new tree, for the events after a position."""
    origin = f"hinged/{name}/{secrets.token_hex(16)}"
    return Ledger(through, Tree(), Head(origin, 0, Tree().root.hex(), at_ms))


def _after(store: Store, model: Model, ledger: Ledger) -> Iterator[Event]:
    """Yield the events that follow a tree."""
    if model.position > ledger.through:
        yield from (record for _, record in store.read(model.name, ledger.through))


def seal(
    store: Store, model: Model, records: Sequence[Event], at_ms: int, key: Ed25519PrivateKey | None
) -> EventsSealed | None:
    """Return the seal of events that follow the model's state; None if the model's configuration has no receipts.

    A rollback is sealed nevertheless, because it may return to a state with receipts, whose tree must not continue. A
    tree does not continue after events that nobody sealed: a redaction may be replacing them now.
    """
    ledger, position = model.receipts, model.position
    if not model.configuration.receipts and (ledger is None or records[-1].kind != ModelRolledBack.KIND):
        return None
    if ledger is None:  # the event before this append turned receipts on
        ledger = _new(model.name, position - 1, at_ms)
    elif any(record.kind != EventSetAside.KIND for record in _after(store, model, ledger)):
        ledger = _new(model.name, position, at_ms)
    every = [*_after(store, model, ledger), *records]
    first, kinds = ledger.through + 1, tuple(record.kind for record in every)
    salts = tuple(secrets.token_bytes(SALT_BYTES) for _ in every)
    commitments = tuple(commitment_of(salt, record.payload) for salt, record in zip(salts, every, strict=True))
    tree = ledger.tree.extended(leaves_of(first, kinds, commitments))
    head = Head(ledger.head.origin, tree.size, tree.root.hex(), at_ms)
    if key is not None:
        public = key.public_key().public_bytes_raw().hex()
        head = head._replace(key=public, signature=key.sign(head.text()).hex())
    return EventsSealed(first, ledger.tree, kinds, commitments, salts, head)
