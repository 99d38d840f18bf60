"""A SQLite store whose appends fail as they would on a bad disk."""

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import OutcomeUnknown
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.server import PATIENCE_S


class FailingStore(SQLiteStore):
    """The real store. `failures` lists how the next appends fail. If `held` is set, appends wait for this event."""

    def __init__(self, folder):
        super().__init__(folder)
        self.failures = []
        self.held = None
        self.appends = 0

    def append(self, model, after, events):
        self.appends += 1
        if self.held is not None:
            self.held.wait(PATIENCE_S)
        failure = self.failures.pop(0) if self.failures else None
        if failure == "before":
            raise StoreUnavailable("the disk did not take it")
        if failure == "unknown, not written":
            raise OutcomeUnknown("the disk failed at fsync")
        position = super().append(model, after, events)
        if failure == "unknown, written":
            raise OutcomeUnknown("the disk failed at fsync")
        return position

    def let_go(self):
        """Let waiting appends continue, and let no append fail again."""
        self.failures.clear()
        if self.held is not None:
            self.held.set()
