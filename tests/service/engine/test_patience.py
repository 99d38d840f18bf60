"""Waiting times for a store that is unavailable."""

from hinged.service.engine.patience import RETRY_FIRST_S, RETRY_MAX_S, Patience
from hinged.service.errors import StoreUnavailable

AWAY = StoreUnavailable("the store is away")


def test_each_wait_doubles_up_to_a_limit_and_starts_over_once_the_store_was_there():
    patience = Patience("m")
    waits = [patience.after(AWAY) for _ in range(10)]
    assert waits[:3] == [RETRY_FIRST_S, 2 * RETRY_FIRST_S, 4 * RETRY_FIRST_S]
    assert waits[-1] == RETRY_MAX_S
    patience.renew()
    assert patience.after(AWAY) == RETRY_FIRST_S
