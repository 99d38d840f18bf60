"""`hinged cluster balance`: the controller of several servers. The controller moves models away from the most loaded
server.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

from hinged.client.client import Client, HingedError
from hinged.commands.options import EXIT_INTERRUPTED, asks, positive, sentence
from hinged.commands.writing import write
from hinged.extras import needed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hinged.service.cluster.controller import Controller, Round
    from hinged.service.cluster.placement import Move
    from hinged.service.store.redis.board import Board

HOLDS_S = 60.0
"""Minimum number of seconds without a sign of life from a controller before another controller replaces it."""
HOLDS_ROUNDS = 3


@click.command()
@click.option("--store", envvar="HINGED_STORE", show_envvar=True, required=True, help="The Redis that servers share.")
@click.option("--namespace", envvar="HINGED_REDIS_NAMESPACE", default="hinged", show_default=True, help="In it.")
@click.option("--watch", is_flag=True, help="Go on until SIGINT or SIGTERM.")
@click.option(
    "--every", type=positive, default="10", show_default=True, help="Seconds between two checks, with --watch."
)
@click.option("--dry-run", is_flag=True, help="Only print what would move.")
@asks
def balance(client: Client, *, store: str, namespace: str, watch: bool, every: float, dry_run: bool) -> None:
    """Move models from servers with much memory or load to servers with less, a few at a time.

    If several controllers run, one of them works. It needs the key of an admin. Servers go on without a controller.
    """
    with needed("redis", "hinged cluster balance"):
        from hinged.service.cluster.controller import Controller  # noqa: PLC0415
        from hinged.service.errors import ServiceError  # noqa: PLC0415

    name = f"{socket.gethostname()}-{os.getpid()}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the next controller can start at once
    try:
        with closing(open_board(store, name, every, namespace)) as board:
            controller = Controller(board.hold, client.cluster, lambda model, to: moved(client, model, to))
            if dry_run:
                found = controller.decide()
                tell_moves(found.said, found.left)
            elif watch:
                keep_balanced(controller, every, ServiceError)
            else:
                until_balanced(controller)
    except ServiceError as error:
        raise click.ClickException(error.message) from error
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def open_board(store: str, name: str, every: float, namespace: str) -> Board:
    """Return the board, for the controller with this name, which checks at this interval."""
    from hinged.service.store.redis.board import Board  # noqa: PLC0415

    return Board(store, name=name, ttl_s=max(HOLDS_S, HOLDS_ROUNDS * every), namespace=namespace)


def moved(client: Client, model: str, to: str) -> None:
    """Move a model. Report a failure in one line."""
    try:
        client.move(model, to=to)
    except HingedError as error:
        raise RuntimeError(sentence(error)) from error


def until_balanced(controller: Controller) -> None:
    """Make one round of moves, as soon as it is time to decide.

    Exit with 1 if a move failed, or if another controller is working.
    """
    said = ""
    while True:
        found = controller.round()
        if found.moved or found.failed or found.said != said:
            tell_round(found)
        said = found.said
        if found.failed or not found.holds:
            sys.exit(1)
        if found.waits:
            time.sleep(1.0)
        elif not found.left:
            return


def keep_balanced(
    controller: Controller, every: float, away: type[Exception], before: Callable[[], None] = lambda: None
) -> None:
    """Make rounds of moves until stopped. Report failures and try again.

    away: the exceptions of an unreachable store. before: a function that is called before each round.
    """
    said = ""
    while True:
        try:
            before()
            found = controller.round()
        except (HingedError, away) as error:
            write(sentence(error) if isinstance(error, HingedError) else str(error), err=True)
        else:
            if found.moved or found.failed or found.said != said:
                tell_round(found)
            said = found.said
            if found.left and not found.failed:
                continue
        time.sleep(every)


def tell_round(found: Round) -> None:
    """Print a line for the decision and a line for each move."""
    tell_moves(found.said, found.moved)
    for step, error in found.failed:
        write(f"{step.model} was not moved from {step.source} to {step.target}: {error}", err=True)


def tell_moves(said: str, moves: Sequence[Move]) -> None:
    """Print moves that were made, or that would be made."""
    write(said)
    for step in moves:
        write(f"{step.model}: {step.source} -> {step.target}")
