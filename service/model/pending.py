"""Pending predictions: predictions that have an id and whose labels have not come yet.

Their number and age are limited, and the oldest are dropped first. A prediction is kept as it was made, because this
prediction counts for the metrics.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hinged.frames import BadFrame
from hinged.service.data.classes import Label
from hinged.service.data.exploring import LEAST_SHARE
from hinged.service.data.inputs import (
    Inputs,
    Refit,
    inputs_state,
    join_inputs,
    read_inputs,
    refitted,
)
from hinged.service.model.promises.sets import SENT_BYTES_MAX, Sent
from hinged.service.model.window import MS_MAX
from hinged.solvers.core.solver import CLASSES_MAX
from hinged.solvers.core.states import StateReader

Array = np.ndarray[Any, Any]

ASKED_BYTES_MAX = 1024
"""Maximum length of a prediction's `asked` in a snapshot that is read. A race of 16 machines has 64 bytes."""
WEIGHT_MAX = 1.0 / LEAST_SHARE


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one example.

    x: a batch of one row. digest: the digest of x.
    columns: (K,) decision values; number: the predicted class, or UNKNOWN.
    source: why its label was wanted, if it was wanted (metrics.py).
    at_ms: since when it waits for its label, in milliseconds since 1970, by the time of the log.
    weight: what the label weighs: 1 / share, if a share of such decisions is not taken so that their labels come.
    chance: the probability with which the label was wanted; 0 if it was not wanted, or if some labels never are.
    promised: the set of labels that was sent (promises/sets.py); empty without a promise.
    asked: what the solver needs from now when the label comes (Solver.answers). Not part of the event in the log,
    because the model computes it when it applies the event.
    """

    id: str
    x: Inputs
    digest: bytes
    columns: Array
    number: int
    source: int
    at_ms: int
    promised: bytes = b""
    asked: bytes = b""
    weight: float = 1.0
    chance: float = 0.0


class Pending:
    """Pending predictions by id. There are at most `most` predictions, and none is older than `age_ms`."""

    def __init__(self, most: int, age_ms: int) -> None:
        self.most = most
        self.age_ms = age_ms
        self._by_id: OrderedDict[str, Prediction] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self._by_id.values())

    def keep(self, predictions: Sequence[Prediction]) -> None:
        """Add predictions, oldest first. If an id is predicted again with the same x, its first prediction stays."""
        for prediction in predictions:
            former = self._by_id.get(prediction.id)
            if former is not None and former.digest == prediction.digest:
                continue
            self._by_id.pop(prediction.id, None)
            self._by_id[prediction.id] = prediction
        while len(self._by_id) > self.most:
            self._by_id.popitem(last=False)

    def find(self, given: str, now_ms: int) -> Prediction | None:
        """Return the prediction of an id, unless the prediction is too old."""
        prediction = self._by_id.get(given)
        return None if prediction is None or self._expired(prediction, now_ms) else prediction

    def _expired(self, prediction: Prediction, now_ms: int) -> bool:
        return prediction.at_ms < now_ms - self.age_ms

    def pop(self, given: str) -> Prediction | None:
        """Remove and return the prediction of an id."""
        return self._by_id.pop(given, None)

    def limit(self, most: int, age_ms: int, now_ms: int) -> None:
        """Set the maximum number and the maximum age of waiting predictions."""
        self.most, self.age_ms = most, age_ms
        self.keep([])
        self.expire(now_ms)

    def change(self, refit: Refit) -> None:
        """Convert every x to another form. Drop predictions whose x cannot be converted."""
        fitted = [fitted_prediction(prediction, refit) for prediction in self]
        self._by_id = OrderedDict((prediction.id, prediction) for prediction in fitted if prediction is not None)

    def forget_answers(self) -> None:
        """Forget what the solver needs when the labels come, because another solver will learn them."""
        for given, prediction in self._by_id.items():
            if prediction.asked:
                self._by_id[given] = replace(prediction, asked=b"")

    def expire(self, now_ms: int) -> None:
        """Drop predictions that are older than age_ms."""
        while self._by_id:
            oldest = next(iter(self._by_id.values()))
            if not self._expired(oldest, now_ms):
                break
            self._by_id.popitem(last=False)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""
        return predictions_state(list(self._by_id.values()))

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Restore the predictions from a result of `state`."""
        predictions = read_predictions(facts, arrays)
        if len({p.id for p in predictions}) < len(predictions):
            raise BadFrame("an id is listed twice")
        self._by_id = OrderedDict((p.id, p) for p in predictions)


class Made(NamedTuple):
    """A prediction, and the classes of the state that made it. The class numbers are indices into these classes."""

    prediction: Prediction
    classes: Sequence[Label] = ()


def fitted_prediction(prediction: Prediction, refit: Refit) -> Prediction | None:
    """Return the prediction with its x in another form, or None if its x cannot be converted to this form."""
    try:
        x, digest = refitted(prediction.x, prediction.digest, refit)
    except ValueError:
        return None
    return prediction if x is prediction.x else replace(prediction, x=x, digest=digest)


def predictions_state(predictions: Sequence[Prediction]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return predictions as facts and arrays of a frame. Decision values of different widths are concatenated."""
    facts: dict[str, Any] = {"ids": [p.id for p in predictions]}
    if not predictions:
        return facts, {}
    inputs, arrays = inputs_state(join_inputs([p.x for p in predictions]))
    for name, parts in (("asked", [p.asked for p in predictions]), ("promised", [p.promised for p in predictions])):
        if any(parts):
            arrays[name] = np.frombuffer(b"".join(parts), np.uint8)
            arrays[f"{name}_bytes"] = np.array([len(each) for each in parts], np.int32)
    weights = np.array([p.weight for p in predictions])
    if (weights != 1.0).any():
        arrays["weights"] = weights
    chances = np.array([p.chance for p in predictions])
    if chances.any():
        arrays["chances"] = chances
    return facts | inputs, arrays | {
        "digests": np.frombuffer(b"".join(p.digest for p in predictions), np.uint8),
        "columns": np.concatenate([p.columns for p in predictions]).astype(np.float64),
        "widths": np.array([p.columns.size for p in predictions], np.int32),
        "numbers": np.array([p.number for p in predictions], np.int32),
        "sources": np.array([p.source for p in predictions], np.uint8),
        "at_ms": np.array([p.at_ms for p in predictions], np.int64),
    }


def read_predictions(facts: dict[str, Any], arrays: dict[str, Array]) -> list[Prediction]:
    """Return the predictions of a result of `predictions_state`."""
    n = len(facts["ids"])
    if not n:
        return []
    inputs, read = read_inputs(facts, arrays), StateReader(arrays)
    if len(inputs) != n:
        raise BadFrame(f"{n} predictions must have as many x, got {len(inputs)}")
    widths = read.take("widths", np.int32, (n,), 0, CLASSES_MAX)
    numbers = read.take("numbers", np.int32, (n,), -1, CLASSES_MAX - 1)
    # One column distinguishes two classes. Without columns, the prediction is the most frequent class.
    if (numbers >= np.select([widths == 0, widths == 1], [CLASSES_MAX, 2], widths)).any():
        raise BadFrame("a prediction names a class without a column")
    ends = np.concatenate(([0], np.cumsum(widths)))
    columns = read.take("columns", np.float64, (int(ends[-1]),))
    sources = read.take("sources", np.uint8, (n,), 0, 2)
    at_ms = read.take("at_ms", np.int64, (n,), 0, MS_MAX)
    digests = read.take("digests", np.uint8, (16 * n,)).tobytes()
    asked, promised = _read_bytes(read, n, "asked", ASKED_BYTES_MAX), _read_bytes(read, n, "promised", SENT_BYTES_MAX)
    for sent in filter(None, promised):
        Sent.decoded(sent)
    weights = read.take("weights", np.float64, (n,), 1.0, WEIGHT_MAX) if "weights" in arrays else np.ones(n)
    chances = read.take("chances", np.float64, (n,), 0.0, 1.0) if "chances" in arrays else np.zeros(n)
    return [
        Prediction(
            id=given,
            x=inputs.part(r, r + 1),
            digest=digests[16 * r : 16 * (r + 1)],
            columns=columns[ends[r] : ends[r + 1]],
            number=int(numbers[r]),
            source=int(sources[r]),
            at_ms=int(at_ms[r]),
            promised=promised[r],
            asked=asked[r],
            weight=float(weights[r]),
            chance=float(chances[r]),
        )
        for r, given in enumerate(facts["ids"])
    ]


def _read_bytes(read: StateReader, n: int, name: str, most: int) -> list[bytes]:
    """Return a part of n predictions that has at most `most` bytes each. Older states do not have the part."""
    if name not in read.state:
        return [b""] * n
    ends = np.concatenate(([0], np.cumsum(read.take(f"{name}_bytes", np.int32, (n,), 0, most))))
    whole = read.take(name, np.uint8, (int(ends[-1]),)).tobytes()
    return [whole[begin:end] for begin, end in pairwise(ends.tolist())]
