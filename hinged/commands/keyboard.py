"""Read single keys from a terminal."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
from collections import deque
from typing import Any, Self

import click

try:
    import termios
    import tty
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

INTERRUPT, END = "\x03", "\x04"
SIGNALS_S = 0.5  # seconds between two looks for signals
SEQUENCE = re.compile(r"\x1b(\[[0-9;]*[A-Za-z~]|O.|.)?")  # escape sequences of cursor and function keys


class Keys:
    """Reads single keys from the terminal while the `with` block lasts.

    Keys that are typed in advance are not lost. Cursor keys are ignored.
    """

    def __init__(self) -> None:
        self._typed: deque[str] = deque()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cooked: Any = None

    def __enter__(self) -> Self:
        if termios is not None:
            # Switch the mode once for the whole session: switching for each key would lose keys typed in between.
            self._cooked = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin, termios.TCSADRAIN)
        return self

    def __exit__(self, *_: object) -> None:
        if termios is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._cooked)

    def next(self) -> str:
        """Return the next key. Raise EOFError at the end of the input."""
        while not self._typed:
            self._typed.extend(SEQUENCE.sub("", self._read()))
        key = self._typed.popleft()
        if key == INTERRUPT:
            raise KeyboardInterrupt
        if key == END:
            raise EOFError
        return key

    def line(self, prompt: str) -> str:
        """Read a line, with the usual editing keys."""
        self.__exit__()
        try:
            return str(click.prompt(prompt, default="", show_default=False)).strip()
        finally:
            self.__enter__()

    def _read(self) -> str:
        if termios is None:
            return click.getchar()
        while not select.select([sys.stdin], [], [], SIGNALS_S)[0]:
            pass  # handlers of signals run here, also of a signal that did not interrupt this thread's waiting
        data = os.read(sys.stdin.fileno(), 1024)
        if not data:
            raise EOFError
        return self._decoder.decode(data)
