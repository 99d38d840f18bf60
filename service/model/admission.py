"""Admission: whether a model can take events in, checked before they are appended.

Everything in the log must be applicable for ever, so nothing is appended that `Model.apply` could refuse. Commands and
plans refuse what a client should not have sent. This last check asks each event's own `admit`. If an event is refused
here, the server has a fault: the log stays as it is, and the model goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from hinged.service.data.inputs import Inputs
from hinged.service.model.events import ModelEvent
from hinged.service.model.model import Model


class Inapplicable(Exception):
    """An event that the model could not apply."""


def check_events(model: Model, events: Sequence[ModelEvent]) -> None:
    """Raise Inapplicable if one of these events, in order, could not be applied. Changes nothing."""
    coming = Coming(model)
    for event in events:
        try:
            event.admit(coming)
        except (ValueError, KeyError, TypeError) as error:
            raise Inapplicable(f"{event.KIND}: {error}") from error


class Coming:
    """A model, and the effects of the events that come before the event being checked."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.added = set[str]()  # classes, by their keys
        self.learned = model.learned
        self.held = 0  # examples of the events before, each perhaps a point

    @property
    def classes(self) -> int:
        """Classes that will be known by then."""
        return len(self.model.labels) + len(self.added)

    def check_x(self, inputs: Inputs) -> None:
        """Raise ValueError for inputs that do not have the form of the model's features."""
        configuration = self.model.configuration
        configuration.features.check_form(inputs, configuration)
