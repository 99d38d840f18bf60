"""Run a command in a pseudoterminal, and type into it."""

import os
import re
import select
import signal
import subprocess
import sys
import time

from tests.helpers.server import PATIENCE_S, ROOT

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][0-9A-Za-z]")


# This program makes stdin the controlling terminal, so that Ctrl-C is a signal, and then becomes the command. It resets
# SIGINT, because tests that run in the background ignore SIGINT, and the command would inherit that.
TAKE = """import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A command in a terminal. `expect` waits for words after the words that it found before. `text` is all output
    without colours.
    """

    def __init__(self, command, env=None):
        ours, theirs = os.openpty()
        self._ours = ours
        self._bytes = b""
        self._seen = 0
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        environment["PYTHONFAULTHANDLER"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE, *command], stdin=theirs, stdout=theirs, stderr=theirs,
            env={**environment, **(env or {})}, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    @property
    def raw(self):
        return self._bytes.decode(errors="replace")

    @property
    def text(self):
        return CONTROL.sub("", self.raw).replace("\r\n", "\n")

    def send(self, keys):
        os.write(self._ours, keys.encode())

    def expect(self, words, seconds=PATIENCE_S):
        """Wait for words; return the output up to and including them."""
        end = time.monotonic() + seconds
        while (found := self.text.find(words, self._seen)) < 0:
            if not self._read(end - time.monotonic()):
                raise AssertionError(
                    f"{words!r} did not come; the output since the last expected words is {self.text[self._seen :]!r}"
                )
        begin, self._seen = self._seen, found + len(words)
        return self.text[begin : self._seen]

    def wait(self, seconds=PATIENCE_S):
        """Read all output; return the exit code."""
        end = time.monotonic() + seconds
        while self._read(end - time.monotonic()):
            pass
        try:
            return self.process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # makes Python print where its threads are
            while self._read(5.0):
                pass
            raise AssertionError(f"the command has not ended after {seconds} s: {self.text!r}") from None

    def _read(self, seconds):
        if not select.select([self._ours], [], [], max(0.0, seconds))[0]:
            return False
        try:
            part = os.read(self._ours, 65536)
        except OSError:  # on Linux: all processes at the other end have ended
            return False
        self._bytes += part
        return bool(part)

    def close(self):
        """Close the terminal. The system then sends SIGHUP to the command."""
        if self._ours is not None:
            os.close(self._ours)
        self._ours = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close()
