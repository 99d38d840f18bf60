"""The other servers and all models, as this server knows them; updated with each sign of life."""

from __future__ import annotations

import time

from hinged.service.store.shares import Beat, Sign

WHOLE_S = 3600.0
"""Seconds after which everything is asked for again, because Redis may have lost data or set its clock back. The answer
takes Redis about 8 us a name, during which it does nothing else."""


class Known:
    """The servers, the last reported owner of each model, and the models. Used on the event loop."""

    def __init__(self) -> None:
        self.nodes: dict[str, Sign] = {}
        self.owners: dict[str, tuple[int, str]] = {}
        self.models: set[str] = set()
        self._mark = 0
        self._whole_at = 0.0

    @property
    def since(self) -> int:
        """Mark of the last answer, to get later changes; 0 to get everything."""
        return self._mark if time.monotonic() - self._whole_at < WHOLE_S else 0

    def ask_for_all(self) -> None:
        """Get everything with the next sign of life."""
        self._mark = 0

    def take(self, told: Beat) -> set[str]:
        """Take in an answer; return the names that it reports, including models that are gone."""
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
        """The servers alive."""
        return {address for address, sign in self.nodes.items() if sign.lives}
