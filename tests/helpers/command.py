"""Run the command `hinged` as users do."""

import os
import subprocess
import sys

from tests.helpers.server import PATIENCE_S, ROOT


def argv(*arguments):
    """The arguments with which a process runs a command."""
    return [sys.executable, "-m", "hinged", *map(str, arguments)]


def hinged(*arguments, code=0, env=None, text=True, **how):
    """Run a command to its end and return the completed process.

    code: the expected exit code, None for any. env: further environment variables.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HINGED_")}
    done = subprocess.run(
        argv(*arguments), env={**inherited, "PYTHONPATH": str(ROOT), **(env or {})}, capture_output=True, text=text,
        timeout=PATIENCE_S, check=False, **how,
    )  # fmt: skip
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done
