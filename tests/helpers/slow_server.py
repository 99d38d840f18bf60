"""`hinged serve` with a slow solver: a model's C sets how slow. Not a program for users.

A model of the solver lasvm with C above SLOW computes for (C - SLOW) more CPU seconds in each request. It does so
without Python's lock and rests every few milliseconds, as the solvers do. Before that it adds a line to the file that
SLOW_BEGAN names. A model whose C is in BREAKS raises an exception that ordinary error handling may miss.
"""

import hashlib
import os
import time
from pathlib import Path

from hinged.commands.cli import main
from hinged.solvers.core.turns import rest
from hinged.solvers.dual.lasvm import LASVM

SLOW = 1000
BREAKS = {901: SystemExit, 902: KeyboardInterrupt, 903: GeneratorExit, 904: StopIteration}
BYTES = bytes(2**21)

learn, load = LASVM.learn, LASVM.load


def slow_learn(self, *arguments, **named):
    if self.C in BREAKS:
        raise BREAKS[self.C]("broken on purpose")
    if self.C > SLOW and (began := os.environ.get("SLOW_BEGAN")):
        with Path(began).open("a") as file:
            file.write("\n")
    end = time.thread_time() + (self.C - SLOW)
    while self.C > SLOW and time.thread_time() < end:
        hashlib.sha256(BYTES)
        rest()
    return learn(self, *arguments, **named)


LASVM.learn = slow_learn
if __name__ == "__main__":
    main()
