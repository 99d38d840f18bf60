"""A model of the server inside this program, without a store, threads or requests.

The model applies the same events as on a server, so it has the same state after the same examples, to the bit.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import softmax

from hinged.service.commands.learn import make_plan
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.classes import Label, check_labels
from hinged.service.data.configuration import new_configuration, shown_configuration
from hinged.service.data.examples import digests
from hinged.service.data.inputs import Inputs
from hinged.service.data.parts import Configuration
from hinged.service.data.times import now_ms
from hinged.service.engine.transfer.exports import pack_export
from hinged.service.engine.transfer.imports import read_import
from hinged.service.errors import ServiceError
from hinged.service.model.admission import check_events
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.learning import TrainingFinished
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.model.view import Decided, Published
from hinged.service.settings import Settings
from hinged.solvers.warm import FINISH, LEARN, SERVE, tell, warm_up

Array = np.ndarray[Any, Any]

NAME = "local"
SETTINGS = Settings.model_construct()
"""The server's defaults. Environment variables are for servers, and have no effect here."""
PART = 10_000
"""Maximum number of examples in an event, as in a request to a server. A shorter event needs less memory."""


class LocalModel:
    """A model, and the state that predictions read. A pickle or copy contains the model's snapshot."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._published: Published | None = None

    @classmethod
    def create(cls, parts: dict[str, Any]) -> Self:
        """Create a model from the parts of a configuration, as `PUT /models/{model}` does. Raise ValueError."""
        with as_value_errors():
            configuration = new_configuration(json.dumps(parts, default=_plain), SETTINGS)
        warm_up(configuration.solver, configuration.dtype, (LEARN, SERVE, FINISH), partial(tell, configuration.solver))
        model = Model(NAME, configuration, **SETTINGS.model_sizes)
        model.apply(1, ModelCreated(configuration.model_dump(mode="json"), now_ms()))
        return cls(model)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read a model that a server exported, or that `packed` returned. Raise ValueError for an invalid file."""
        with as_value_errors():
            return cls(read_import(NAME, io.BytesIO(data), SETTINGS, SETTINGS.model_sizes)[0])

    def packed(self) -> bytes:
        """Return the model as a file. A server can import the file."""
        return pack_export(self._model.name, self._model.position, self._model.snapshot())

    # -- learning -------------------------------------------------------------------------------------------------

    def learn(
        self, inputs: Inputs, labels: Sequence[Label], weights: Sequence[float] = (), *, verbose: bool = False
    ) -> None:
        """Learn examples, in order. Raise ValueError for an invalid label or weight, or if the model is full; an event
        whose examples are refused changes nothing.

        weights: factors of C, > 0; empty if each is 1. verbose: whether to print a line after each part.
        """
        with as_value_errors():
            check_labels(labels)
            for begin in range(0, len(labels), PART):
                end = min(begin + PART, len(labels))
                part = inputs if end - begin == len(labels) else inputs.part(begin, end)
                self._learn(part, labels[begin:end], weights[begin:end])
                if verbose:
                    self._print(f"{end:,} of {len(labels):,} examples")

    def _learn(self, inputs: Inputs, labels: Sequence[Label], weights: Sequence[float]) -> None:
        m = len(labels)
        request = LearnRequest([None] * m, list(labels), inputs, digests(inputs, labels), weights=weights)
        plan = make_plan(self._model, [request], lambda _: {}, SETTINGS.classes_max, now_ms())
        for planned in plan.planned:
            if isinstance(planned, ServiceError):
                raise planned
        self._apply(plan.events)

    def finish(self, *, verbose: bool = False) -> bool:
        """Optimise over all points. Return whether the solver reached its tolerance. verbose: print a line."""
        finished = TrainingFinished(now_ms())
        self._published = None
        outcome = self._model.apply(self._model.position + 1, finished)
        if verbose:
            self._print("finished")
        return outcome.finish is None or outcome.finish.converged

    def _print(self, stage: str) -> None:
        """Print the points, and how many predictions from before the labels were right."""
        figures = self.figures()
        points, right = figures["points"], figures["metrics"]["accuracy"]
        told = [
            f"{points:,} points" if points else "",
            f"{100 * right:.2f} % right before they were learned" if right is not None else "",
        ]
        print(f"{stage}: {', '.join(filter(None, told))}", flush=True)  # noqa: T201

    def _apply(self, events: Sequence[ModelEvent]) -> None:
        check_events(self._model, events)
        self._published = None
        for event in events:
            self._model.apply(self._model.position + 1, event)

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def configuration(self) -> Configuration:
        """The model's configuration."""
        return self._model.configuration

    def shown_configuration(self) -> dict[str, Any]:
        """Return the configuration as a server shows it."""
        return shown_configuration(self.configuration)

    @property
    def labels(self) -> list[Label]:
        """The labels so far, in the order of the columns of decision values."""
        return self._model.labels.labels

    @property
    def published(self) -> Published:
        """The state that predictions read."""
        if self._published is None:
            self._published = self._model.published()
        return self._published

    def decide(self, inputs: Inputs) -> Decided:
        """Predict a batch. Raise ValueError for an x that does not fit the features."""
        with as_value_errors():
            return self.published.decide(inputs)

    def scores(self, decided: Decided) -> Array:
        """Return the decision values (m, labels); without decision values, 1 for the predicted label."""
        if decided.columns.shape[1]:
            return self.published.score_columns(decided)
        return np.equal.outer(decided.numbers, np.arange(len(self.labels))).astype(np.float64)

    def probabilities(self, decided: Decided) -> Array:
        """Return the probabilities (m, labels). Until enough examples have been predicted, they are a softmax of the
        decision values.
        """
        known = self.published.class_probabilities(decided)
        found: Array = softmax(self.scores(decided), axis=1) if known is None else known
        return found

    def figures(self) -> dict[str, Any]:
        """Return the figures of the model, as `GET /models/{model}` does."""
        return self._model.describe(now_ms())

    def __getstate__(self) -> dict[str, Any]:
        return {"snapshot": self._model.snapshot()}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self._model, self._published = Model.restore(NAME, kept["snapshot"], **SETTINGS.model_sizes), None


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Raise the server's errors as ValueError, which callers in the same program expect."""
    try:
        yield
    except ServiceError as error:
        raise ValueError(error.message) from None


def _plain(value: object) -> Any:
    """Return a number of NumPy as a number, and the text of any other value, which the configuration then refuses."""
    return value.item() if isinstance(value, np.generic) else repr(value)
