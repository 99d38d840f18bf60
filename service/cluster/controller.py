"""The controller of several servers: moves models where one server is much fuller than another, a few at a time.

It is a program of its own, which needs to run nowhere: without it every server claims, serves and learns, and nothing
is moved. Of several on one store one at a time is the controller. What it has decided stands in Redis until it is done,
so that the next one goes on where it ended. A move itself is the servers' (`POST /cluster/models/{model}/move`), which
lose nothing by it whoever asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from hinged.service.cluster.placement import Move, Placed, Server, needed_moves, within

AT_ONCE = 8
"""Moves at once, of all servers."""
AT_ONCE_OF_A_SERVER = 2
A_ROUND = 64
"""Moves until it is looked again at what servers and models are."""
MODEL_BYTES = 2**19
"""What a model takes beside its points, about (docs/explanation/sizing.md)."""


class Steps(Protocol):
    """What stands in Redis (service/store/redis/board.py)."""

    def hold(self) -> bool:
        """Be the controller for a while; false where another one is."""

    def read(self) -> list[tuple[str, str, str]]:
        """The moves that are still to be made."""

    def write(self, steps: Sequence[Move]) -> bool:
        """Make these the moves that are to be made."""

    def strike(self, models: Sequence[str]) -> bool:
        """Take the moves of some models off."""


class Round(NamedTuple):
    """What came of one round."""

    said: str
    holds: bool = True
    """Whether this is the controller."""
    waits: bool = False
    """Whether it is not yet time to decide."""
    moved: Sequence[Move] = ()
    failed: Sequence[tuple[Move, str]] = ()
    left: Sequence[Move] = ()


class Controller:
    """Decides by what the servers tell of themselves, and asks them to move models."""

    def __init__(self, steps: Steps, cluster: Callable[[], Mapping[str, Any]], move: Callable[[str, str], Any]) -> None:
        """cluster: what `GET /cluster` answers. move: lets a model go to a server; raises where it did not."""
        self._steps = steps
        self._cluster = cluster
        self._move = move

    def decide(self, *, only_look: bool = False) -> Round:
        """The moves that are to be made now, as `left`, and what is said of that. only_look: write nothing down."""
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
            # One that failed is planned anew, if it is still needed.
            if not self._steps.strike([step.model for step in some]) or failed:
                break
        return decided._replace(moved=moved, failed=failed, left=moves[len(moved) + len(failed) :])

    def _tried(self, step: Move) -> str | None:
        try:
            self._move(step.model, step.target)
        except Exception as error:  # noqa: BLE001  whatever it was, the model is where it was or where it goes
            return str(error) or type(error).__name__
        return None


def unsettled(shown: Mapping[str, Any]) -> str:
    """Why it is not yet time to decide; empty where it is.

    Who dies leaves models that others claim and load: what they take there is not known before.
    """
    living = {node["node"] for node in shown["nodes"] if node["alive"]}
    unowned = sum(model["owner"] not in living for model in shown["models"])
    if unowned:
        return f"models without a living owner: {unowned}"
    untold = sum("state" not in model or model["state"] in {"loading", "compiling"} for model in shown["models"])
    if untold:
        return f"models that are being loaded, or whose owner does not tell of them: {untold}"
    return ""


def servers_of(shown: Mapping[str, Any]) -> list[Server]:
    """The servers that live, as `GET /cluster` shows them."""
    return [
        Server(node["node"], float(node["memory_max_bytes"]), float(node["processors"]))
        for node in shown["nodes"]
        if node["alive"] and "processors" in node
    ]


def models_of(shown: Mapping[str, Any]) -> list[Placed]:
    """The models, as `GET /cluster` shows them."""
    return [
        Placed(
            model["model"], model["owner"], MODEL_BYTES + model.get("memory_bytes", 0.0), float(model.get("load", 0.0))
        )
        for model in shown["models"]
    ]


def side_by_side(moves: Iterable[Move]) -> list[list[Move]]:
    """Moves in groups of those that are made at once: no server has a part in too many of one group."""
    groups: list[list[Move]] = []
    busy: list[Counter[str]] = []
    first = 0  # the groups before it are full
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
