"""This server's knowledge of the other servers and of all models. Each heartbeat updates it."""

from __future__ import annotations

import time

from hinged.service.store.shares import Beat, Sign

WHOLE_S = 3600.0
"""Seconds after which this server asks Redis for all servers and models again, because Redis may have lost data, or its
clock may have been set back. The answer costs Redis about 8 us per name, and Redis does nothing else meanwhile."""


class Known:
    """The servers, the models, and the last reported owner of each model. Used on the event loop."""

    def __init__(self) -> None:
        self.nodes: dict[str, Sign] = {}
        self.owners: dict[str, tuple[int, str]] = {}
        self.models: set[str] = set()
        self._mark = 0
        self._whole_at = 0.0

    @property
    def since(self) -> int:
        """Return the number with which to ask for the changes after the last answer; 0 asks for everything."""
        return self._mark if time.monotonic() - self._whole_at < WHOLE_S else 0

    def take(self, told: Beat) -> set[str]:
        """Record the answer to a heartbeat. Return the names of the models in the answer, including deleted models."""
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
        """Return the servers that are alive."""
        return {address for address, sign in self.nodes.items() if sign.lives}
