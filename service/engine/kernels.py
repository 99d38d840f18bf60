"""The kernels at the server's start: loaded, or compiled under the eyes of whoever reads the log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hinged.solvers import warm
from hinged.solvers.core.cache import BROUGHT, may_run_brought
from hinged.solvers.crew import compiling_alone, dismiss
from hinged.solvers.estimators.compiling import FEWEST, of_a_server

log = logging.getLogger(__name__)

SOLVER = "auto"  # what most models have
TOLD_EVERY_S = 5.0  # seconds between two lines of the log while kernels are compiled


async def load_kernels(run: Callable[..., Awaitable[Any]], *, in_turn: bool = False) -> None:
    """Load what a new model of the usual solver needs, and compile it first if need be; run: calls beside the loop.

    What such a model needs later, to finish or to forget, may still be compiled when this returns. in_turn: of several
    processes that start together one compiles, and the others load what it left.
    """
    started = time.monotonic()
    functions = of_a_server(SOLVER)
    if len(functions) - functions.there() >= FEWEST:  # some that it refers to, it never calls
        if BROUGHT.is_dir() and not may_run_brought():
            log.info("those of the package are for other versions of Python and numba, or for another processor")
        log.info(
            "compiling the kernels, as the first start on a machine does: 10 s of two idle cores, more of busy ones"
        )
    loading = asyncio.ensure_future(run(_in_turn if in_turn else warm.warm_up_first, SOLVER))
    try:
        while not (await asyncio.wait([loading], timeout=TOLD_EVERY_S))[0]:
            log.info("compiled %d of %d functions", functions.there(), len(functions))
    finally:
        loading.cancel()  # where it is done, that is nothing
        dismiss()
    loading.result()
    log.info("kernels are there, %.1f s", time.monotonic() - started)


def _in_turn(solver: str) -> None:
    """As `warm_up_first` does, but where something has to be compiled, all that is under way is waited for first."""
    if not warm.load(solver):
        with compiling_alone():
            warm.warm_up(solver)
