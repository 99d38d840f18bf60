"""The controller moves models, a few at a time, when one of several servers is much fuller than another.

It is a separate and optional program: without it every server claims, serves and learns, and no model is moved. If
several controllers run on one store, one of them is active. Its decisions stand in Redis until they are done, so that
the next controller goes on with them. The servers make the moves themselves (`POST /cluster/models/{model}/move`) and
lose nothing by a move, whoever asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from hinged.service.cluster.placement import Move, Placed, Server, needed_moves, within

AT_ONCE = 8
"""Most moves at once, over all servers."""
AT_ONCE_OF_A_SERVER = 2
"""Most moves at once in which a server takes part. More would keep more of its models from answering."""
A_ROUND = 64
"""Most moves before the servers and models are looked at again."""
MODEL_BYTES = 2**19
"""Approximate bytes of a model besides its points (docs/explanation/sizing.md)."""


class Steps(Protocol):
    """The controller's board in Redis (service/store/redis/board.py)."""

    def hold(self) -> bool:
        """Be the controller for a while; false if another controller is active."""

    def read(self) -> list[tuple[str, str, str]]:
        """The moves still to be made."""

    def write(self, steps: Sequence[Move]) -> bool:
        """Replace the moves to be made."""

    def strike(self, models: Sequence[str]) -> bool:
        """Remove the moves of some models."""


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
    """Decides by the figures of the servers, and asks the servers to move models."""

    def __init__(self, steps: Steps, cluster: Callable[[], Mapping[str, Any]], move: Callable[[str, str], Any]) -> None:
        """cluster: returns the answer of `GET /cluster`. move: moves a model to a server, or raises."""
        self._steps = steps
        self._cluster = cluster
        self._move = move

    def decide(self, *, only_look: bool = False) -> Round:
        """Decide which moves to make now; they are `left` in the outcome. only_look: write nothing to the board."""
        shown = self._cluster()
        waiting = unsettled(shown)
        if waiting:
            return Round(waiting, waits=True)
        servers, models = servers_of(shown), models_of(shown)
        owners = {model.model: model.owner for model in models}
        standing = [Move(*step) for step in self._steps.read()]
        moves = within(standing, owners, [server.address for server in servers])
        if moves:
            if not only_look:
                self._steps.strike([move.model for move in standing if move not in moves])
            return Round(f"moves left: {len(moves)}", left=moves)
        moves = needed_moves(servers, models)
        if (moves or standing) and not only_look:
            self._steps.write(moves)
        return Round(f"models to move: {len(moves)}" if moves else "no model needs to move", left=moves)

    def round(self) -> Round:
        """Decide, and make some of the moves."""
        if not self._steps.hold():
            return Round("another controller is at work", holds=False)
        decided = self.decide()
        moves = decided.left
        moved: list[Move] = []
        failed: list[tuple[Move, str]] = []
        for some in side_by_side(moves[:A_ROUND]):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                told = list(pool.map(self._tried, some))
            for step, error in zip(some, told, strict=True):
                if error is None:
                    moved.append(step)
                else:
                    failed.append((step, error))
            # A move that failed is planned again if it is still needed.
            if not self._steps.strike([step.model for step in some]) or failed:
                break
        return decided._replace(moved=moved, failed=failed, left=moves[len(moved) + len(failed) :])

    def _tried(self, step: Move) -> str | None:
        try:
            self._move(step.model, step.target)
        except Exception as error:  # noqa: BLE001  whatever happened, the model is at one of the two servers
            return str(error) or type(error).__name__
        return None


def unsettled(shown: Mapping[str, Any]) -> str:
    """Why it is too early to decide; empty if it is time.

    When a server dies, other servers claim and load its models. Until then it is unknown what the models use there.
    """
    living = {node["node"] for node in shown["nodes"] if node["alive"]}
    unowned = sum(model["owner"] not in living for model in shown["models"])
    if unowned:
        return f"models without a living owner: {unowned}"
    untold = sum("state" not in model or model["state"] in {"loading", "compiling"} for model in shown["models"])
    if untold:
        return f"models that are loading, or that their owner does not report: {untold}"
    return ""


def servers_of(shown: Mapping[str, Any]) -> list[Server]:
    """The servers alive, from the answer of `GET /cluster`."""
    return [
        Server(node["node"], float(node["memory_max_bytes"]), float(node["processors"]))
        for node in shown["nodes"]
        if node["alive"] and "processors" in node
    ]


def models_of(shown: Mapping[str, Any]) -> list[Placed]:
    """The models, from the answer of `GET /cluster`."""
    return [
        Placed(
            model["model"], model["owner"], MODEL_BYTES + model.get("memory_bytes", 0.0), float(model.get("load", 0.0))
        )
        for model in shown["models"]
    ]


def side_by_side(moves: Iterable[Move]) -> list[list[Move]]:
    """Groups of moves to make at once, in which no server takes part in too many."""
    groups: list[list[Move]] = []
    busy: list[Counter[str]] = []
    first = 0  # index of the first group that is not full
    for move in moves:
        at = first
        while at < len(groups) and (
            len(groups[at]) >= AT_ONCE or max(busy[at][move.source], busy[at][move.target]) >= AT_ONCE_OF_A_SERVER
        ):
            at += 1
        if at == len(groups):
            groups.append([])
            busy.append(Counter())
        groups[at].append(move)
        busy[at].update((move.source, move.target))
        while first < len(groups) and len(groups[first]) >= AT_ONCE:
            first += 1
    return groups
