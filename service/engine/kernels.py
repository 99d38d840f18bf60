"""The kernels at the server's start: loaded, or compiled under the eyes of whoever reads the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hinged.solvers import warm
from hinged.solvers.jit.cache import BROUGHT, compiled_so_far, may_run_brought

log = logging.getLogger(__name__)

SOLVER = "auto"  # what most models have
TOLD_EVERY_S = 5.0  # seconds between two lines of the log while kernels are compiled


async def load_kernels(run: Callable[..., Awaitable[Any]]) -> None:
    """Load what a new model of the usual solver needs, and compile it first if need be; run: calls beside the loop.

    What such a model needs later, to finish or to forget, may still be compiled when this returns.
    """
    started = told = time.monotonic()

    def tell() -> None:
        """Say that something is compiled, and every few seconds how far it is."""
        nonlocal told
        if told == started:
            if BROUGHT.is_dir() and not may_run_brought():
                log.info("those of the package are for other versions of Python and numba, or for another processor")
            log.info("compiling the kernels, as the first start on a machine does, which takes 10 to 30 s")
        elif time.monotonic() - told >= TOLD_EVERY_S:
            log.info("compiled %d functions", compiled_so_far())
        else:
            return
        told = time.monotonic()

    await run(lambda: warm.warm_up_first(SOLVER, watch=tell))
    log.info("kernels are there, %.1f s", time.monotonic() - started)
