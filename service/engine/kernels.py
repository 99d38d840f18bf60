"""Load or compile the kernels when the server starts, with progress in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hinged.solvers import warm
from hinged.solvers.jit.cache import BROUGHT, compiled_so_far, may_run_brought

log = logging.getLogger(__name__)

SOLVER = "auto"  # the solver that most models use; kernels of other solvers are loaded when a model needs them
TOLD_EVERY_S = 5.0  # seconds between two log lines while kernels compile


async def load_kernels(run: Callable[..., Awaitable[Any]]) -> None:
    """Load or compile what a new model with the usual solver needs. run: runs a call on a thread.

    On return, kernels for finishing or forgetting may still be compiling.
    """
    started = told = time.monotonic()

    def tell() -> None:
        """Log that kernels are being compiled, and log the progress every few seconds."""
        nonlocal told
        if told == started:
            if BROUGHT.is_dir() and not may_run_brought():
                log.info("the package's kernels are for other versions of Python and numba, or for another processor")
            log.info("compiling the kernels, as the first start on a machine does, which takes 12 s on two idle cores")
        elif time.monotonic() - told >= TOLD_EVERY_S:
            log.info("compiled %d functions", compiled_so_far())
        else:
            return
        told = time.monotonic()

    await run(lambda: warm.warm_up_first(SOLVER, watch=tell))
    log.info("kernels are there, %.1f s", time.monotonic() - started)
