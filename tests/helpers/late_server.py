"""`hinged serve` whose start lasts until the file that SLOW_START names is deleted. Not a program for users."""

import os
import time
from pathlib import Path

from hinged.commands.cli import main
from hinged.solvers import warm

load = warm.warm_up_first


def slow_load(*arguments, **watched):
    while Path(os.environ["SLOW_START"]).exists():
        time.sleep(0.01)
    return load(*arguments, **watched)


warm.warm_up_first = slow_load
if __name__ == "__main__":
    main()
