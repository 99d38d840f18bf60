"""Run `hinged` in a process that ends with its parent: the process stops when its standard input ends."""

import os
import signal
import threading

from hinged.commands.cli import main


def end_with_input() -> None:
    """Stop when standard input is closed. Nothing is lost, because everything acknowledged is in the store."""
    while os.read(0, 1):  # sys.stdin has a lock, which this thread would hold at the end of the process
        pass
    os.kill(os.getpid(), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_input, daemon=True).start()
    main()
