"""Test the model of a file before the server accepts it: examine its state, then try it out on a copy.

A valid checksum does not make a valid state. `Model.restore` may accept a state that no learning produces. The first
example could then lead to a state that can be written but never read again.
"""

from __future__ import annotations

import numpy as np

from hinged.frames import decode
from hinged.service.data.inputs import Inputs, join_inputs
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.changes import ExampleForgotten, LabelCorrected
from hinged.service.model.events.learning import ClassAdded, ExamplesLearned, TrainingFinished
from hinged.service.model.learner import ModelLearner
from hinged.service.model.model import Model
from hinged.service.model.state import SNAPSHOT

LEARNED_MAX = 2**52  # most examples of a file's model; a snapshot may hold a count twice as large
COUNTED_MAX = 2**61  # most of any other count: at two billion a second, a century before a solver's limit is reached
SIZE_MAX = 1e200  # largest size of any float
FINISHED_MAX = 2_000  # most coefficients with which the copy also finishes and drops everything, for time's sake
EXAMPLES = 4  # examples of each kind that a copy of an imported model learns and predicts


def examine(model: Model, snapshot: bytes) -> None:
    """Raise ValueError for a state that no stream leads to. snapshot: of the model."""
    if model.learned > LEARNED_MAX:
        raise ValueError(f"a file's model has learned at most {LEARNED_MAX} examples, got {model.learned}")
    for name, array in decode(snapshot, SNAPSHOT)[1].items():
        if array.dtype == np.int64 and array.size and not -COUNTED_MAX <= array.min() <= array.max() <= COUNTED_MAX:
            raise ValueError(f"{name} must be within {COUNTED_MAX}, got {array.min()} to {array.max()}")
        if array.dtype == np.float64 and (np.abs(array) > SIZE_MAX).any():
            raise ValueError(f"{name} must be within {SIZE_MAX:g}, got {array.min()} to {array.max()}")
    for learner in (model.learner, *model.shadows.values()):
        learner.solver.examine()


def rehearse(model: Model, snapshot: bytes) -> None:
    """Let a copy of the model learn, unlearn, finish and predict; raise ValueError if the result cannot be read again.

    snapshot: of the model. An inconsistent state may raise other errors.
    """
    copy = _copied(model, snapshot)
    labels = ["rehearsed", "again"] if not copy.labels.labels else []
    for label in labels:
        _take(copy, ClassAdded(label))
    examples = _examples(copy.learner)
    examples = examples.take(np.arange(min(len(examples), copy.room)))
    if len(examples):
        _take(copy, _learned(copy, examples))
        _check_answers(copy, examples)
    numbers = copy.solver.keys()
    small = max(copy.solver.live, numbers.size) * max(1, len(copy.labels)) <= FINISHED_MAX
    if small:
        _take(copy, TrainingFinished(copy.at_ms))
    if numbers.size and copy.learner.exact:
        _take(copy, LabelCorrected(int(numbers[-1]), 0, bytes(16).hex(), copy.at_ms))
    for learner in (copy.learner, *copy.shadows.values()):
        if learner.stopped is None:
            learner.forget(learner.solver.keys()[:1].tolist())
    salt = copy.tombstones.fresh_salt()
    _take(copy, ExampleForgotten(copy.tombstones.mark_of("", salt), salt, None, copy.at_ms))
    _check_read(copy)
    if small:
        for learner in (copy.learner, *copy.shadows.values()):
            learner.solver.drop(learner.solver.known())
        if len(examples) and copy.room >= len(examples):
            _take(copy, _learned(copy, examples))
            _check_answers(copy, examples)
        _check_read(copy)


def _copied(model: Model, snapshot: bytes) -> Model:
    return Model.restore(model.name, snapshot, cache_bytes=model.cache_bytes, answers_kept=model.answers.kept)


def _take(model: Model, event: ModelEvent) -> None:
    model.apply(model.position + 1, event)


def _learned(model: Model, examples: Inputs) -> ExamplesLearned:
    m = len(examples)
    classes = (np.arange(m) % len(model.labels)).astype(np.int32)
    first, contents, sources = model.learned + 1, [bytes(16)] * m, np.zeros(m, np.uint8)
    return ExamplesLearned(first, [None] * m, classes, examples, contents, model.at_ms, sources)


def _examples(learner: ModelLearner) -> Inputs:
    """Some examples like the model's own, and some new examples."""
    new = learner.configuration.features.examples(learner.configuration)
    if learner.warmup.encoder is not None:
        return join_inputs([*learner.warmup.encoder.examples(EXAMPLES), new])
    held = (learner.solver.row_of(key) for key in learner.solver.keys()[-EXAMPLES:].tolist())
    return join_inputs([*(row for row in held if row is not None), new])


def _check_answers(model: Model, examples: Inputs) -> None:
    columns = model.published().decide(examples).columns
    if not np.isfinite(columns).all():
        raise ValueError("it cannot predict what it has learned")


def _check_read(model: Model) -> None:
    model.describe(model.at_ms)
    written = model.snapshot()
    if _copied(model, written).snapshot() != written:
        raise ValueError("what it learns cannot be read again as it was written")
