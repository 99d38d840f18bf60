"""Rank examples that a client sends by the value of their labels. The server stores nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from hinged.service.commands.predict import Serving, decided_soon
from hinged.service.data.classes import Label, label_key
from hinged.service.data.inputs import Inputs
from hinged.service.errors import Invalid
from hinged.service.model.view import Published
from hinged.solvers.scores.selection import GRADIENT, informativeness

Array = np.ndarray[Any, Any]


async def make_ranking(
    serving: Serving,
    published: Published,
    inputs: Inputs,
    ids: Sequence[str | None],
    labels: Sequence[Label | None],
    strategy: str,
) -> list[dict[str, Any]]:
    """Return examples in the order in which a strategy would ask for their labels, each with |f(x)|.

    labels: known labels, which only the strategy gradient needs. Raise Invalid if one is missing.
    """
    classes = _classes_of(published, labels) if strategy == GRADIENT else None
    work = partial(_rank, published, ids=ids, classes=classes, strategy=strategy)
    return await decided_soon(serving, published, inputs, lambda xs: work(inputs=xs))


def _classes_of(published: Published, labels: Sequence[Label | None]) -> Array | None:
    numbers = {label_key(label): number for number, label in enumerate(published.labels)}
    found = [numbers.get(label_key(label)) if label is not None else None for label in labels]
    return None if None in found else np.array(found, np.int64)


def _rank(
    published: Published, inputs: Inputs, ids: Sequence[str | None], classes: Array | None, strategy: str
) -> list[dict[str, Any]]:
    if strategy == GRADIENT and classes is None:
        raise Invalid("the strategy gradient needs y in each example, of a class that the model knows")
    if not published.discerns:
        return [{"id": given, "score": None} for given in ids]
    columns = published.asking.decision(published.seen(inputs)[0])
    order = np.argsort(-informativeness(strategy, columns, classes), kind="stable")
    scores = published.distances(columns)
    return [{"id": ids[r], "score": float(scores[r])} for r in order]
