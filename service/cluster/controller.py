"""The controller moves models, one after the other, if one server is much fuller than another server.

The controller is a separate and optional program. Without it the servers work as usual, but no model is moved. If
several controllers run on one store, only one of them is active. If it ends, the next controller makes a new plan. The
servers themselves make the moves (`POST /cluster/models/{model}/move`). A move loses no data, whether the controller or
an admin asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hinged.service.cluster.placement import Host, Move, Placed, needed_moves

MODEL_BYTES = 2**19
"""Approximate bytes of a model without its points (docs/explanation/sizing.md)."""


class Round(NamedTuple):
    """The outcome of a round."""

    said: str
    holds: bool = True
    """Whether this controller is active."""
    waits: bool = False
    """Whether it is too early to decide."""
    moved: Sequence[Move] = ()
    failed: Sequence[tuple[Move, str]] = ()
    left: Sequence[Move] = ()


class Controller:
    """Decides which models to move, from the servers' reported memory and load, and asks the servers to move them."""

    def __init__(
        self, hold: Callable[[], bool], cluster: Callable[[], Mapping[str, Any]], move: Callable[[str, str], Any]
    ) -> None:
        """Take what the controller calls.

        hold: makes or keeps this controller the active one for a while; returns false if another is active. cluster:
        returns the answer of `GET /cluster`. move: moves a model to a server, or raises.
        """
        self._hold = hold
        self._cluster = cluster
        self._move = move

    def decide(self) -> Round:
        """Decide which moves to make now, and return them as `left` of the outcome."""
        shown = self._cluster()
        waiting = unsettled(shown)
        if waiting:
            return Round(waiting, waits=True)
        moves = needed_moves(servers_of(shown), models_of(shown))
        return Round(f"models to move: {len(moves)}" if moves else "no model needs to move", left=moves)

    def round(self) -> Round:
        """Decide which moves to make, and make them one after the other, until a move fails. The next round decides
        again.
        """
        if not self._hold():
            return Round("another controller is at work", holds=False)
        decided = self.decide()
        moved: list[Move] = []
        failed: list[tuple[Move, str]] = []
        for step in decided.left:
            if failed or (moved and not self._hold()):
                break
            try:
                self._move(step.model, step.target)
            except Exception as error:  # noqa: BLE001  whatever happened, the model is at one of the two servers
                failed.append((step, str(error) or type(error).__name__))
            else:
                moved.append(step)
        return decided._replace(moved=moved, failed=failed, left=decided.left[len(moved) + len(failed) :])


def unsettled(shown: Mapping[str, Any]) -> str:
    """Return why it is too early to decide; an empty string if it is not too early.

    When a server dies, other servers claim and load its models. Until the models are loaded, their memory and load on
    the other servers are unknown.
    """
    living = {node["node"] for node in shown["nodes"] if node["alive"]}
    unowned = sum(model["owner"] not in living for model in shown["models"])
    if unowned:
        return f"models without a living owner: {unowned}"
    untold = sum("state" not in model or model["state"] in {"loading", "compiling"} for model in shown["models"])
    if untold:
        return f"models that are loading, or that their owner does not report: {untold}"
    return ""


def servers_of(shown: Mapping[str, Any]) -> list[Host]:
    """Return the servers that are alive, from the answer of `GET /cluster`."""
    return [
        Host(node["node"], float(node["memory_max_bytes"]), float(node["processors"]))
        for node in shown["nodes"]
        if node["alive"] and "processors" in node
    ]


def models_of(shown: Mapping[str, Any]) -> list[Placed]:
    """Return the models, from the answer of `GET /cluster`."""
    return [
        Placed(
            model["model"], model["owner"], MODEL_BYTES + model.get("memory_bytes", 0.0), float(model.get("load", 0.0))
        )
        for model in shown["models"]
    ]
