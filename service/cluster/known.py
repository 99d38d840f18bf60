"""What this server has been told of the others and of the models, put together from one sign of life to the next."""

from __future__ import annotations

import time

from hinged.service.store.shares import Beat, Sign

WHOLE_S = 3600.0
"""After which all is asked for once more: Redis may have forgotten what it told, or set its clock back. It takes Redis
some 8 us a name, in which it does nothing else."""


class Known:
    """The servers, who was said to own which model, and the models. Used on the event loop."""

    def __init__(self) -> None:
        self.nodes: dict[str, Sign] = {}
        self.owners: dict[str, tuple[int, str]] = {}
        self.models: set[str] = set()
        self._mark = 0
        self._whole_at = 0.0

    @property
    def since(self) -> int:
        """Since when to ask what has changed; 0 for all."""
        return self._mark if time.monotonic() - self._whole_at < WHOLE_S else 0

    def ask_for_all(self) -> None:
        """Have all told with the next sign of life."""
        self._mark = 0

    def take(self, told: Beat) -> set[str]:
        """Take in an answer; the names that it tells of, those of models that are gone too."""
        self.nodes, self._mark = told.nodes, told.mark
        if told.changed is None:
            self._whole_at = time.monotonic()
            names = self.models | self.owners.keys() | told.models | told.owners.keys()
        else:
            names = set(told.changed)
        for name in names:
            if name in told.owners:
                self.owners[name] = told.owners[name]
            else:
                self.owners.pop(name, None)
        self.models -= names - told.models
        self.models |= told.models
        return names

    def living(self) -> set[str]:
        """The servers that live."""
        return {address for address, sign in self.nodes.items() if sign.lives}
