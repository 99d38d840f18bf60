"""Whether a model can take events in: what is asked before anything is appended.

What stands in the log must be applicable for ever, so nothing is appended that `Model.apply` could refuse. Commands and
plans refuse what a client should not have sent; this is the last look at what they made of it, by each event's own
`admit`. An event that it refuses is an error of the server's own: nothing of it is in the log, and the model goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from hinged.service.data.inputs import Inputs
from hinged.service.model.events import ModelEvent
from hinged.service.model.model import Model


class Inapplicable(Exception):
    """An event that the model could not take in."""


def check_events(model: Model, events: Sequence[ModelEvent]) -> None:
    """Raise Inapplicable where one of these events, in order, could not be applied. Changes nothing."""
    coming = Coming(model)
    for event in events:
        try:
            event.admit(coming)
        except (ValueError, KeyError, TypeError) as error:
            raise Inapplicable(f"{event.KIND}: {error}") from error


class Coming:
    """A model and the events that come before the one that is looked at."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.added = set[str]()  # classes, by their keys
        self.learned = model.learned
        self.held = 0  # examples of the events before, each perhaps a point

    @property
    def classes(self) -> int:
        """How many there are by then."""
        return len(self.model.labels) + len(self.added)

    def check_x(self, inputs: Inputs) -> None:
        """ValueError for points that are not in the form of the model's features."""
        configuration = self.model.configuration
        configuration.features.check_form(inputs, configuration)
