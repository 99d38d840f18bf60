"""A model is a fold over its log: state = fold(apply, log).

`apply` is deterministic and does no I/O, reads no clock and draws from no generator but the solver's own, so the same
events give the same state to the bit, whether they came one by one, in batches, or again after a crash. A further epoch
and a rollback alone read what is before them: the learned batches and the state then, which whoever applies them hands
over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.answers import Answers
from service.configuration import read_configuration
from service.events import (
    ClassAdded,
    Created,
    Finished,
    Imported,
    Learned,
    Leased,
    ModelEvent,
    Offered,
    Predicted,
    Released,
    Renewed,
    RolledBack,
    Skipped,
    Voted,
)
from service.examples import SERVER_ID
from service.frames import BadFrame, decode, encode
from service.inputs import Inputs, Records, content_of, join_inputs
from service.labels import Label, Labels, label_key
from service.metrics import UNKNOWN, Prequential
from service.parts import Configuration, NamedFeatures
from service.pending import Pending, Prediction
from service.pool import Asked, Candidate, Lease, Pool
from service.records import Record
from service.state import FACTS
from service.vocabulary import Reader, Vocabulary
from solvers.kernels import Kernel
from solvers.rows import Rows, rows_from_csr
from solvers.selection import distances, is_wanted
from solvers.sigmoid import Calibration
from solvers.solver import UNBOUNDED, Finish, Solver, StateReader, View, columns_of

Array = np.ndarray[Any, Any]

SNAPSHOT = "model"
FORMAT = 3  # of snapshots; CHANGELOG.md tells what changed
OLD_IDS_MIN = 10_000
CALIBRATED_MIN = 20  # predictions whose labels have come before there are probabilities
UNCALIBRATED = Calibration(np.zeros((0, 2)))


def predicted(columns: Array, classes: int) -> tuple[Array, Array]:
    """Class numbers (m,) and the scores (m,) of those classes, from decision values (m, K) of the columns.

    With one column the second class is its positive side. Without any class the prediction is UNKNOWN, the score 0.
    """
    m = columns.shape[0]
    if classes == 0:
        return np.full(m, UNKNOWN, np.int32), np.zeros(m)
    if columns.shape[1] == 1:
        numbers = ((columns[:, 0] > 0) & (classes > 1)).astype(np.int32)
    else:
        numbers = columns.argmax(axis=1).astype(np.int32)
    return numbers, score_of(columns, numbers)


def score_of(columns: Array, numbers: Array) -> Array:
    """(m,) the scores of the classes `numbers` (m,), from decision values (m, K), K >= 1."""
    if columns.shape[1] == 1:
        return np.where(numbers == 1, columns[:, 0], 0.0 - columns[:, 0])
    return np.asarray(columns[np.arange(numbers.size), numbers])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `apply` found: for a learned batch the class numbers and scores from right before each example."""

    predictions: Array
    scores: Array
    finish: Finish | None = None


NOTHING = Outcome(np.zeros(0, np.int32), np.zeros(0))


Epoch = Callable[[], Iterator[Learned]]
"""All learned batches of the log before an event, in order: what a further epoch learns again."""

Former = Callable[[int], "Model"]
"""The model as it was at a position of the log."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Decision values (m, K) of a batch, predicted class numbers (m,) and their probabilities (m,), NaN if unknown."""

    columns: Array
    numbers: Array
    probabilities: Array


@dataclass(frozen=True, slots=True)
class Published:
    """What predictions read. It never changes; learning publishes another."""

    view: View
    reader: Reader | None
    kernel: Kernel
    configuration: Configuration
    labels: tuple[Label, ...]
    names: tuple[str, ...]
    majority: int
    calibration: Calibration
    position: int
    examples: int

    def rows(self, inputs: Inputs) -> Rows:
        """A batch as the view takes it."""
        if not isinstance(inputs, Records):
            return inputs
        assert self.reader is not None  # noqa: S101  records are those of named features
        dim, dtype = self.configuration.features.dim, self.configuration.dtype
        return rows_from_csr(*self.reader.encode(inputs.records), self.kernel, dim, dtype)

    def decide(self, inputs: Inputs) -> Decided:
        """Decide on a batch. Before the first example no class is known, in a warm-up perhaps only the majority's."""
        m = len(inputs)
        if not self.labels:
            return Decided(np.zeros((m, 0)), np.full(m, UNKNOWN, np.int32), np.full(m, np.nan))
        if self.majority != UNKNOWN:
            return Decided(np.zeros((m, 0)), np.full(m, self.majority, np.int32), np.full(m, np.nan))
        columns = self.view.decision(self.rows(inputs))
        numbers, _ = predicted(columns, len(self.labels))
        return Decided(columns, numbers, self.calibration(columns, numbers))

    def scores(self, decided: Decided) -> list[dict[str, float]]:
        """The score of each class by name, for each row."""
        columns = decided.columns
        if columns.shape[1] == 1:
            columns = np.concatenate((0.0 - columns, columns), axis=1)[:, : len(self.labels)]
        return [dict(zip(self.names, scores, strict=False)) for scores in columns.tolist()]

    def distances(self, columns: Array) -> Array:
        """(m,) |f(x)|, NaN where fewer than two classes are known."""
        return distances(columns) if self.discerns else np.full(columns.shape[0], np.nan)

    def doubtful(self, columns: Array) -> Array:
        """(m,) whether |f(x)| < 1 + delta / 2; true where fewer than two classes are known."""
        return is_wanted(columns, self.view.delta) if self.discerns else np.ones(columns.shape[0], bool)

    @property
    def discerns(self) -> bool:
        """Whether decision values tell classes apart."""
        return len(self.labels) > 1 and self.majority == UNKNOWN

    def predict(self, inputs: Inputs) -> list[tuple[Label | None, dict[str, float]]]:
        """For each row the predicted label (None while no class is known) and the score of each class by name."""
        decided = self.decide(inputs)
        labels = [None if number == UNKNOWN else self.labels[number] for number in decided.numbers.tolist()]
        return list(zip(labels, self.scores(decided), strict=True))


class Model:
    """The state of one model: vocabulary, solver, labels, metrics, first answers, pool, pending predictions."""

    def __init__(self, name: str, configuration: Configuration, *, cache_bytes: int, answers_kept: int) -> None:
        self.name = name
        self.configuration = configuration
        self.cache_bytes = cache_bytes
        self.position = 0
        self.learned = 0
        self.at_ms = 0
        self.undone: list[tuple[int, int]] = []  # (to, at) of rollbacks: nothing between the two counts
        self.reads_back_at = 0  # position of the newest event that needed what is before it, to be applied
        features = configuration.features
        self.vocabulary: Vocabulary | None = None
        if isinstance(features, NamedFeatures):
            self.vocabulary = Vocabulary(features.warmup, features.columns_max)
        self.warm_classes = np.zeros(0, np.int32)  # of the examples of the warm-up, while it lasts
        self.gamma = 1.0  # what "auto" came to
        self.solver = configuration.build_solver(cache_bytes)
        self.labels = Labels()
        self.metrics = Prequential()
        self.answers = Answers(answers_kept)
        self.old_ids: dict[int, str] = {}  # ids of points whose first answers are forgotten, by number
        self.pool = Pool(configuration.labels.pool_max)
        self.pending = Pending(configuration.labels.pending_max, round(1000 * configuration.labels.pending_s))
        for label in configuration.classes or ():
            self._add_class(label)

    def _add_class(self, label: Label) -> None:
        self.labels.add(label)
        self.solver.add_class(self.configuration.weight_of(label))
        self.metrics.add_class()

    @property
    def room(self) -> int:
        """Examples that may come before points_max is reached, also when the warm-up is learned anew."""
        warming = self.vocabulary is not None and self.vocabulary.warming
        if warming and self.solver.room < UNBOUNDED:
            return self.solver.points_max - self.warm_classes.size
        return self.solver.room

    # -- the fold -------------------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, name: str, first: ModelEvent, *, cache_bytes: int, answers_kept: int) -> Model:
        """The model of a log's first event. ValueError (BadFrame) if that is none, or its state cannot be read."""
        sizes = {"cache_bytes": cache_bytes, "answers_kept": answers_kept}
        match first:
            case Created():
                model = cls(name, read_configuration(first.configuration), **sizes)
                model.apply(1, first)
            case Imported():
                model = cls.restore(name, first.state, **sizes)
                model.position, model.at_ms = 1, max(model.at_ms, first.at_ms)
                model.undone, model.reads_back_at = [], 0  # positions of another log
            case _:
                raise BadFrame(f"a log begins with {Created.KIND!r} or {Imported.KIND!r}, got {first.KIND!r}")
        return model

    def apply(
        self, position: int, event: ModelEvent, epoch: Epoch | None = None, former: Former | None = None
    ) -> Outcome:
        """Take in the event at this position of the log. It was validated before it was logged.

        epoch: the learned batches before it, for a finishing step that goes over them again. former: the model as it
        was, for a rollback; it becomes a part of this one.
        """
        if position != self.position + 1:
            raise ValueError(f"model {self.name} stands at position {self.position}, got the event of {position}")
        if not isinstance(event, ClassAdded):
            self.at_ms = max(self.at_ms, event.at_ms)
            self.pending.expire(self.at_ms)
        outcome = NOTHING
        match event:
            case Created():
                pass
            case Imported():
                raise ValueError(f"model {self.name} is there: a state is imported by a log's first event alone")
            case RolledBack():
                assert former is not None  # noqa: S101  whoever applies such an event hands the model of then
                self.roll_back(position, event, former(event.to))
            case ClassAdded():
                self._add_class(event.label)
            case Learned():
                outcome = self._learn(event)
            case Finished():
                outcome = Outcome(NOTHING.predictions, NOTHING.scores, self._finish(event.epochs, epoch))
                self.reads_back_at = position if event.epochs else self.reads_back_at
            case Predicted():
                self.pending.keep(event.predictions)
            case _:
                self._label(event)
        self.position = position
        return outcome

    def roll_back(self, position: int, event: RolledBack, former: Model) -> None:
        """Become the model as it was at `event.to`, which may be this one; the log goes on behind `position`."""
        if former.position != event.to or not event.to < position:
            raise ValueError(f"a rollback at {position} to {event.to} got the state at {former.position}")
        vars(self).update({name: part for name, part in vars(former).items() if name != "name"})
        self.undone = [*self.undone, (event.to, position)]
        self.reads_back_at = self.position = position
        self.at_ms = max(self.at_ms, event.at_ms)
        self.pending.expire(self.at_ms)

    def counts(self, position: int) -> bool:
        """Whether the event at this position is a part of what the model is, and was not undone."""
        return not any(to < position < at for to, at in self.undone)

    def _label(self, event: Offered | Leased | Renewed | Released | Skipped | Voted) -> None:
        match event:
            case Offered():
                parts = zip(event.ids, event.digests, event.labels, strict=True)
                candidates = [
                    Candidate(given, event.inputs.take(np.array([r])), digest, label)
                    for r, (given, digest, label) in enumerate(parts)
                ]
                self.pool.offer(candidates, event.at_ms)
            case Leased():
                for lease in event.leases:
                    rest = {key: value for key, value in lease.items() if key != "id"}
                    self.pool.lend(lease["id"], Lease(annotator=event.annotator, **rest), event.at_ms)
                if event.request_id is not None:
                    tokens = event.again + [lease["token"] for lease in event.leases]
                    self.pool.remember(event.annotator, event.request_id, Asked(event.fingerprint, tokens))
            case Renewed():
                self.pool.renew(event.token, event.expires_ms)
            case Released():
                self.pool.release(event.token)
            case Skipped():
                self.pool.skip(event.token, for_all=event.for_all)
            case Voted():
                self.pool.vote(event.token, event.label)

    def _learn(self, event: Learned) -> Outcome:
        m = len(event.ids)
        numbers, scores = np.full(m, UNKNOWN, np.int32), np.zeros(m)
        ids = [given for given in event.ids if given is not None]
        late = self._late(event) if self.pending else {}
        begin = 0
        for columns, found in self._learn_parts(event):
            end = begin + found.size
            numbers[begin:end] = found
            if columns.shape[1]:
                scores[begin:end] = score_of(columns, found)
            # What nothing but the most frequent class said does not count.
            counted = found if columns.shape[1] else np.full(found.size, UNKNOWN, np.int32)
            self._count(event, begin, columns, counted, late)
            begin = end
        for r, prediction in late.items():
            numbers[r], scores[r] = prediction.number, 0.0
            if prediction.columns.size:
                scores[r] = score_of(prediction.columns[None], numbers[r : r + 1])[0]
        forgotten = self.answers.add(event, numbers, scores)
        self._remember(forgotten)
        for given in ids:
            self.pool.answer(given)
            self.pending.pop(given)
        self.learned += m
        return Outcome(numbers, scores)

    def _late(self, event: Learned) -> dict[int, Prediction]:
        """By row the predictions that have waited for these very examples' labels."""
        found = {}
        for r, given in enumerate(event.ids):
            prediction = self.pending.find(given, self.at_ms) if given is not None else None
            if prediction is not None:
                label = self.labels.labels[event.classes[r]]
                if content_of(prediction.digest, label) == event.contents[r]:
                    found[r] = prediction
        return found

    def _count(self, event: Learned, begin: int, columns: Array, numbers: Array, late: dict[int, Prediction]) -> None:
        """Feed the metrics with a part of a batch, in order; what was predicted before counts as it was then."""
        end, at = begin + numbers.size, begin
        for r in [r for r in late if begin <= r < end] + [end]:
            part = slice(at - begin, r - begin)
            self.metrics.add(columns[part], numbers[part], event.classes[at:r], event.sources[at:r])
            if r < end:
                then = late[r]
                number = then.number if then.columns.size else UNKNOWN
                self.metrics.add(
                    then.columns[None],
                    np.array([number], np.int32),
                    event.classes[r : r + 1],
                    event.sources[r : r + 1],
                )
            at = r + 1

    def _learn_parts(self, event: Learned) -> Iterator[tuple[Array, Array]]:
        """Learn a batch; decision values and predicted class numbers of one part of it after another."""
        keys = np.arange(event.first, event.first + len(event.ids))
        if not isinstance(event.inputs, Records):
            yield from self._learn_rows(event.inputs, event.classes, keys)
            return
        assert self.vocabulary is not None  # noqa: S101  records are those of named features
        begin = 0
        while begin < len(keys):
            wanted = self.vocabulary.until_freeze or len(keys)
            end = min(begin + wanted, len(keys))
            records, classes = event.inputs.records[begin:end], event.classes[begin:end]
            if self.vocabulary.warming and not len(self.vocabulary):
                yield np.zeros((end - begin, 0)), self._majorities(classes)
            else:
                yield from self._learn_rows(self._encoded(records), classes, keys[begin:end])
            if self.vocabulary.warming:
                self.warm_classes = np.concatenate((self.warm_classes, classes))
                if self.vocabulary.observe(records):
                    self._freeze()
            begin = end

    def _learn_rows(self, rows: Rows, classes: Array, keys: Array) -> Iterator[tuple[Array, Array]]:
        columns = self.solver.learn(rows, classes, keys)
        numbers, _ = predicted(columns, len(self.labels))
        begin = 0
        if keys.size and keys[0] == 1:
            # Before the first example of all nothing is known, whatever classes were declared.
            yield np.zeros((1, 0)), np.full(1, UNKNOWN, np.int32)
            begin = 1
        yield columns[begin:], numbers[begin:]

    @property
    def majority(self) -> int:
        """The most frequent class while nothing better is known of named features, else UNKNOWN."""
        if self.vocabulary is None or len(self.vocabulary) or not self.vocabulary.warming:
            return UNKNOWN
        return int(np.bincount(self.warm_classes).argmax()) if self.warm_classes.size else UNKNOWN

    def _majorities(self, classes: Array) -> Array:
        """The most frequent class right before each of these examples."""
        counts = np.bincount(self.warm_classes, minlength=len(self.labels))
        found = np.full(classes.size, UNKNOWN, np.int32)
        for r, number in enumerate(classes):
            if counts.any():
                found[r] = counts.argmax()
            counts[number] += 1
        return found

    def _encoded(self, records: Sequence[Record]) -> Rows:
        assert self.vocabulary is not None  # noqa: S101
        dim, dtype = self.configuration.features.dim, self.configuration.dtype
        return rows_from_csr(*self.vocabulary.encode(records), self.solver.kernel, dim, dtype)

    def _freeze(self) -> None:
        """Fix the columns by what the warm-up has shown so far, and learn it anew."""
        vocabulary = self.vocabulary
        assert vocabulary is not None  # noqa: S101
        csr = vocabulary.freeze()
        self.gamma = min(vocabulary.gamma(self.configuration.kernel.type), self.configuration.gamma_max)
        self.solver = self._new_solver()
        rows = rows_from_csr(*csr, self.solver.kernel, self.configuration.features.dim, self.configuration.dtype)
        self.solver.learn(rows, self.warm_classes, np.arange(1, self.warm_classes.size + 1))
        if not vocabulary.warming:
            self.warm_classes = np.zeros(0, np.int32)

    def _new_solver(self) -> Solver:
        solver = self.configuration.build_solver(self.cache_bytes, self.gamma)
        for label in self.labels.labels:
            solver.add_class(self.configuration.weight_of(label))
        return solver

    def _finish(self, epochs: int, epoch: Epoch | None) -> Finish:
        if self.vocabulary is not None and self.vocabulary.warming and self.warm_classes.size:
            self._freeze()
        for _ in range(epochs):
            assert epoch is not None  # noqa: S101  whoever applies such an event hands the log
            for event in epoch():
                keys = np.arange(event.first, event.first + len(event.ids))
                inputs = event.inputs
                rows = self._encoded(inputs.records) if isinstance(inputs, Records) else inputs
                # What was dropped before comes back as long as there is room.
                held = np.isin(keys, self.solver.keys())
                fits = np.flatnonzero(held | (np.cumsum(~held) <= self.solver.room))
                self.solver.learn(rows.take(fits), event.classes[fits], keys[fits], again=True)
        return self.solver.finish()

    def _remember(self, forgotten: Sequence[tuple[int, str]]) -> None:
        """Keep the ids of what may still be a point."""
        self.old_ids.update(forgotten)
        if len(self.old_ids) > 2 * self.solver.live + OLD_IDS_MIN:
            live = set(self.solver.keys().tolist())
            self.old_ids = {number: given for number, given in self.old_ids.items() if number in live}

    def id_of(self, number: int) -> str:
        """The id of an example: the client's, where it is known, else the server's."""
        return self.answers.id_of(number) or self.old_ids.get(number) or f"{SERVER_ID}{number}"

    # -- reading --------------------------------------------------------------------------------------------------

    def published(self) -> Published:
        """The present state for predictions."""
        return Published(
            view=self.solver.view(),
            reader=self.vocabulary.reader() if self.vocabulary is not None else None,
            kernel=self.solver.kernel,
            configuration=self.configuration,
            labels=tuple(self.labels.labels) if self.learned else (),
            names=tuple(self.labels.names),
            majority=self.majority,
            # A sigmoid through a handful of scores is sure of anything.
            calibration=self.metrics.calibration() if self.metrics.predicted >= CALIBRATED_MIN else UNCALIBRATED,
            position=self.position,
            examples=self.learned,
        )

    def describe(self, now_ms: int = 0) -> dict[str, Any]:
        """The model in figures. now_ms: the time by which leases are open, that of the newest event if it is later."""
        certificate = self.solver.certificate()
        figures = {
            "model": self.name,
            "configuration": self.configuration.model_dump(mode="json"),
            "position": self.position,
            "examples": self.learned,
            "classes": list(self.labels.labels),
            "support_vectors": certificate["support_vectors"],
            "points": certificate["points"],
            "duality_gap": certificate["gap"],
            "certificate": certificate,
            "metrics": self.metrics.figures(self.labels.labels),
            "pool": self.pool.figures(max(now_ms, self.at_ms)),
            "pending": len(self.pending),
            "memory_bytes": self.solver.memory_bytes(),
        }
        if self.vocabulary is not None:
            figures["features"] = {**self.vocabulary.figures(), "gamma": self.gamma_used}
        discarded = self.solver.discarded
        if discarded is not None:
            figures["discards"] = {
                name: {"wrong": wrong, "sure": sure}
                for name, (wrong, sure) in zip(self.labels.names, discarded.tolist(), strict=True)
            }
        return figures

    @property
    def gamma_used(self) -> float | None:
        """The kernel's gamma, whether it was given or found; None for a linear kernel."""
        return None if self.configuration.kernel.type == "linear" else float(self.solver.kernel.gamma)

    # -- state ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state as one frame."""
        facts: dict[str, Any] = {
            "format": FORMAT,
            "configuration": self.configuration.model_dump(mode="json"),
            "position": self.position,
            "learned": self.learned,
            "at_ms": self.at_ms,
            "undone": self.undone,
            "reads_back_at": self.reads_back_at,
            "gamma": self.gamma,
            "labels": self.labels.labels,
            "old_ids": sorted(self.old_ids.items()),
        }
        arrays: dict[str, Array] = {"warm_classes": self.warm_classes}
        for name, part in self._parts().items():
            facts[name], part_arrays = part.state()
            arrays |= {f"{name}.{key}": array for key, array in part_arrays.items()}
        arrays |= {f"solver.{name}": array for name, array in self.solver.state().items()}
        arrays |= {f"metrics.{name}": array for name, array in self.metrics.state().items()}
        return encode(SNAPSHOT, facts, arrays)

    def _parts(self) -> dict[str, Any]:
        """What has facts and arrays of its own."""
        parts = {"answers": self.answers, "pool": self.pool, "pending": self.pending}
        return parts if self.vocabulary is None else {**parts, "vocabulary": self.vocabulary}

    @classmethod
    def restore(cls, name: str, snapshot: bytes, *, cache_bytes: int, answers_kept: int) -> Model:
        """The model of a snapshot. ValueError (BadFrame) if the bytes are none or do not fit together."""
        facts, arrays = decode(snapshot, SNAPSHOT)
        if facts.get("format") != FORMAT:
            raise BadFrame(f"the snapshot has format {facts.get('format')}, this version reads {FORMAT}")
        FACTS.validate_python(facts)
        try:
            return cls._restore(name, facts, arrays, cache_bytes, answers_kept)
        except (KeyError, TypeError, IndexError, OverflowError) as error:
            raise BadFrame(f"the snapshot does not fit together: {error!r}") from error

    @classmethod
    def _restore(
        cls, name: str, facts: dict[str, Any], arrays: dict[str, Array], cache_bytes: int, answers_kept: int
    ) -> Model:
        configuration = read_configuration(facts["configuration"])
        model = cls(name, configuration, cache_bytes=cache_bytes, answers_kept=answers_kept)

        def part(prefix: str) -> dict[str, Array]:
            return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}

        model.labels = Labels()
        for label in facts["labels"]:
            model.labels.add(label)
        model.gamma = facts["gamma"]
        model.solver = configuration.build_solver(cache_bytes, model.gamma)
        model.solver.load(part("solver."))
        if model.solver.classes != len(model.labels):
            raise ValueError(f"the snapshot has {len(model.labels)} labels for {model.solver.classes} classes")
        model.metrics.load(part("metrics."))
        if model.metrics.classes != len(model.labels):
            raise ValueError(f"the snapshot has {len(model.labels)} labels for metrics of {model.metrics.classes}")
        for key, own in model._parts().items():
            own.load(facts[key], part(f"{key}."))
        model.warm_classes = arrays["warm_classes"]
        model.old_ids = dict(facts["old_ids"])
        model.position, model.learned, model.at_ms = facts["position"], facts["learned"], facts["at_ms"]
        model.undone = [(to, at) for to, at in facts["undone"]]
        model.reads_back_at = facts["reads_back_at"]
        model._check(arrays)
        return model

    def _check(self, arrays: dict[str, Array]) -> None:
        """Refuse a state whose parts do not belong together."""
        if len(self.labels) != len({label_key(label) for label in self.labels.labels}):
            raise ValueError("the snapshot has a label twice")
        for name, least in (("answers.labels", 0), ("answers.predictions", -1), ("pending.numbers", -1)):
            numbers = arrays.get(name, NOTHING.predictions)
            if numbers.size and not least <= numbers.min() <= numbers.max() < len(self.labels):
                raise ValueError(f"{name} must be numbers of {len(self.labels)} classes")
        if self.answers.newest != self.learned:
            raise ValueError(f"the snapshot has learned {self.learned} examples and answered {self.answers.newest}")
        warm = StateReader(arrays).take("warm_classes", np.int32, (None,), 0, len(self.labels) - 1)
        if warm.size != (len(self.vocabulary.observed) if self.vocabulary is not None else 0):
            raise ValueError(f"the snapshot has {warm.size} classes of a warm-up")
        if not self.gamma <= self.configuration.gamma_max:
            raise ValueError(f"gamma must be at most {self.configuration.gamma_max:g}, got {self.gamma}")
        if any(p.columns.size > columns_of(len(self.labels)) for p in self.pending):
            raise ValueError(f"a pending prediction has more columns than {len(self.labels)} classes")
        if len(self.pool) > self.pool.most or len(self.pending) > self.pending.most:
            raise ValueError("the snapshot has more candidates or pending predictions than its configuration allows")
        waiting = [*(candidate.x for candidate in self.pool), *(p.x for p in self.pending)]
        if waiting:
            self._check_x(waiting)

    def _check_x(self, batches: list[Inputs]) -> None:
        """Refuse an x that is none of this model's: its form, width, precision, or norms."""
        dim, dtype = self.configuration.features.dim, self.configuration.dtype
        wrong = ValueError("the snapshot has an x of another form, width, precision or norm than the model's")
        if any(isinstance(x, Records) != (self.vocabulary is not None) for x in batches):
            raise wrong
        x = join_inputs(batches)
        if isinstance(x, Records):
            return
        if any(batch.dim != dim or batch.values.dtype != dtype for batch in batches):  # type: ignore[union-attr]
            raise wrong
        rows = rows_from_csr(x.indptr, x.indices, x.values, self.solver.kernel, dim, dtype)
        if not (np.allclose(x.norms, rows.norms, 1e-4) and np.allclose(x.selves, rows.selves, 1e-4)):
            raise wrong

    def digest(self) -> str:
        """A hash of the whole state but positions and time: equal for equal folds, however they were batched."""
        stood = self.position, self.at_ms, self.undone, self.reads_back_at
        self.position, self.at_ms, self.undone, self.reads_back_at = 0, 0, [], 0
        try:
            return hashlib.sha256(self.snapshot()).hexdigest()
        finally:
            self.position, self.at_ms, self.undone, self.reads_back_at = stood


def answers_of(snapshot: bytes) -> Answers:
    """The first answers that a snapshot holds."""
    facts, arrays = decode(snapshot, SNAPSHOT)
    answers = Answers(max(1, len(facts["answers"]["ids"])))
    answers.load(facts["answers"], {name.removeprefix("answers."): array for name, array in arrays.items()})
    return answers
