"""Feed records to vocabularies, and compare the rows that they make."""

import json

import numpy as np

from hinged.service.data.features.vocabulary import Vocabulary


def dense(rows, width):
    indptr, indices, entries = rows
    table = np.zeros((indptr.size - 1, width))
    table[np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), indices] = entries
    return table


def streamed(vocabulary, records, sizes):
    """All rows of a stream that comes in batches; the warm-up's rows come once it is over."""
    rows, at = [], 0
    while at < len(records):
        batch = records[at : at + next(sizes)]
        at += len(batch)
        first, rest = batch[: vocabulary.left], batch[vocabulary.left :]
        if first:
            vocabulary.observe(first)
            if not vocabulary.left:
                rows.append(vocabulary.freeze())
        if rest:
            rows.append(vocabulary.encode(rest))
    return [np.concatenate([np.diff(r[0]) if part == 0 else r[part] for r in rows] or [[]]) for part in range(3)]


def whole(vocabulary):
    facts, arrays = vocabulary.state()
    return json.dumps(facts), {name: array.tobytes() for name, array in arrays.items()}


def taught(records, warmup=None, columns_max=100):
    vocabulary = Vocabulary(len(records) if warmup is None else warmup, columns_max)
    vocabulary.observe(records[: vocabulary.warmup])
    vocabulary.freeze()
    return vocabulary
