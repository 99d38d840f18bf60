"""Admission: check whether a model can apply events, before they are appended to the log.

Everything in the log must remain applicable for ever, so nothing is appended that `Model.apply` could refuse. Commands
and plans already refuse invalid requests of clients. This last check calls each event's own `admit`. If `admit` refuses
an event, the server has a fault. The log then stays as it is, and the model continues.
"""

from __future__ import annotations

from collections.abc import Sequence

from hinged.service.data.inputs import Inputs
from hinged.service.model.events import ModelEvent
from hinged.service.model.model import Model


class Inapplicable(Exception):
    """An event that the model could not apply."""


def check_events(model: Model, events: Sequence[ModelEvent]) -> None:
    """Raise Inapplicable if one of these events, applied in order, would fail. Nothing changes."""
    coming = Coming(model)
    for event in events:
        try:
            event.admit(coming)
        except (ValueError, KeyError, TypeError) as error:
            raise Inapplicable(f"{event.KIND}: {error}") from error


class Coming:
    """A model, together with the effects of the events that precede the event being checked."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.added = set[str]()  # keys of the classes that the preceding events add
        self.learned = model.learned
        self.held = 0  # number of examples in the preceding events; each may become a point

    @property
    def classes(self) -> int:
        """Return the number of classes after the preceding events."""
        return len(self.model.labels) + len(self.added)

    def check_x(self, inputs: Inputs) -> None:
        """Raise ValueError for inputs that do not fit the form of the model's features."""
        configuration = self.model.configuration
        configuration.features.check_form(inputs, configuration)
