"""Run the command `hinged` as users do."""

import contextlib
import io
import os
import subprocess
import sys
from unittest import mock

from hinged.commands.cli import main
from tests.helpers.server import PATIENCE_S, ROOT


def argv(*arguments):
    """Return the arguments with which a process runs a command."""
    return [sys.executable, "-m", "hinged", *map(str, arguments)]


def hinged(*arguments, code=0, env=None, text=True, input=None, cwd=".", process=False):  # noqa: A002  as in subprocess.run
    """Run a command to its end; return the completed process.

    A command runs in this process, which saves a second of imports, unless `process` is true.

    code: the expected exit code, or None for any code. env: further environment variables.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HINGED_")}
    env = {**inherited, "PYTHONPATH": str(ROOT), **(env or {})}
    if process:
        done = subprocess.run(
            argv(*arguments), env=env, cwd=cwd, input=input, capture_output=True, text=text, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
    else:
        given = input.encode() if isinstance(input, str) else input or b""
        done = _here([str(argument) for argument in arguments], env, given, text, cwd)
    assert code in (None, done.returncode), f"{done.stdout}{done.stderr}"
    return done


class _Input(io.BytesIO):
    """The standard input of a command."""

    name = "<stdin>"


def _here(arguments, env, given, text, cwd):
    """Run a command in this process, with its own environment, folder and standard streams."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = {
        name: io.TextIOWrapper(stream, encoding="utf-8", write_through=True)
        for name, stream in (("stdin", _Input(given)), ("stdout", out), ("stderr", err))
    }
    code = None
    with (
        mock.patch.multiple(sys, argv=["hinged", *arguments], **streams),
        mock.patch.dict(os.environ, env, clear=True),
        contextlib.chdir(cwd),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    written = [stream.getvalue().decode() if text else stream.getvalue() for stream in (out, err)]
    return subprocess.CompletedProcess(arguments, code or 0, *written)
