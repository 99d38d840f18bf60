"""A process of a crew (crew.py), from its first moment: it ends when the process that started it does.

It imports nothing that takes long before it listens.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading


def listen() -> queue.SimpleQueue[bytes]:
    """What the parent writes to standard input, a message after its length in 8 bytes. When it closes that, by whatever
    end, this process ends.
    """
    told: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    source = sys.stdin.buffer

    def read() -> None:
        while True:
            length = source.read(8)
            message = source.read(int.from_bytes(length, "big"))
            if not message:
                os._exit(0)
            told.put(message)

    threading.Thread(target=read, daemon=True).start()
    return told


if __name__ == "__main__":
    heard = listen()
    role, module = sys.argv[1:]
    importlib.import_module(module).main(heard, role)
