"""Faults put into the product on purpose. The simulation must find each of them."""

import itertools
from contextlib import contextmanager
from unittest import mock

from hinged.service.engine.history import ModelHistory
from hinged.service.errors import StoreUnavailable
from hinged.service.store.redis import claims, scripts
from hinged.service.store.redis.nodes import Nodes
from hinged.service.store.redis.scripts import Script

COMPARED = "if held and tonumber(held) > tonumber(epoch) then return {'fenced', held} end"


@contextmanager
def epoch_not_compared():
    """Let a server append although another server has claimed the model."""
    assert COMPARED in scripts.APPEND.text
    with mock.patch.object(scripts, "APPEND", Script(scripts.APPEND.text.replace(COMPARED, ""))):
        yield


@contextmanager
def acknowledged_before_fsync():
    """Acknowledge an append before Redis has fsynced it."""
    call = Nodes.call

    def at_once(nodes, script, keys, arguments, *, lasting=False):
        return call(nodes, script, keys, arguments, lasting=lasting and script is not scripts.APPEND)

    with mock.patch.object(Nodes, "call", at_once):
        yield


@contextmanager
def not_loaded_to_the_end():
    """Serve a claimed model before the last event of its log is applied."""

    def newest(history):
        return history._fold(max(1, history.store.end(history.name) - 1))

    with mock.patch.object(ModelHistory, "newest", newest):
        yield


@contextmanager
def reports_lost():
    """Lose every second report of a claim. The servers must manage: only the store says who owns a model."""
    call, count = Nodes.call, itertools.count()

    def perhaps(nodes, script, *told, **how):
        if script is claims.SAY and next(count) % 2:
            raise StoreUnavailable("this report is lost")
        return call(nodes, script, *told, **how)

    with mock.patch.object(Nodes, "call", perhaps):
        yield


PLANTED = {
    "epoch": epoch_not_compared,
    "fsync": acknowledged_before_fsync,
    "load": not_loaded_to_the_end,
    "reports": reports_lost,
}
