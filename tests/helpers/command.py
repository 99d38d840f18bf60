"""`hinged`, as those run it who use it."""

import os
import subprocess
import sys

from tests.helpers.server import PATIENCE_S, ROOT


def argv(*arguments):
    """A command, as a process is started with it."""
    return [sys.executable, "-m", "hinged", *map(str, arguments)]


def hinged(*arguments, code=0, env=None, text=True, **how):
    """What a command has written once it has ended with this code, or any. env: what it has besides."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HINGED_")}
    done = subprocess.run(
        argv(*arguments), env={**inherited, "PYTHONPATH": str(ROOT), **(env or {})}, capture_output=True, text=text,
        timeout=PATIENCE_S, check=False, **how,
    )  # fmt: skip
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done
