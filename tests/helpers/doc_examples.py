"""Run the examples of the documents: blocks of sh and python. A block of json may follow with the answer.

    python -m tests.helpers.doc_examples README.md docs/reference/http.md

The program runs the blocks of each document in order on a fresh server, and writes the answers into the document.
tests/test_docs_examples.py runs the blocks too, and compares the answers.
"""

import ast
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from hinged import Client
from tests.helpers.server import PATIENCE_S, ROOT, RunningServer

URL = "http://127.0.0.1:8000"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```\n(?:\n```json\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# Keys whose values are random. Later blocks of a document use the value that the document shows. The walk replaces
# that value with the value of this run.
DRAWN = ("lease", "ticket")
# Keys whose values may still be empty on a busy machine, as the documents say.
LATE = ("outcomes",)
# Blocks that begin with these words install something or run until somebody stops them, so the walk skips them.
NOT_RUN = ("make ", "hinged label ", "hinged serve", "cp docker/")
WIDTH = 108


class Walk:
    """Runs the blocks of one document. `ran` counts them."""

    def __init__(self, url, folder):
        self.url = url
        self.folder = Path(folder)
        self.ran = 0
        self.drawn = {}  # a random value as the document shows it -> the value of this run
        self._names = {"__name__": "__main__"}
        command = self.folder / "bin" / "hinged"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hinged "$@"\n')
        command.chmod(0o755)
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HINGED_")},
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HINGED_URL": url,
        }

    def __call__(self, language, text, shown=None):
        """Run a block. If the document shows an answer, return the block's answer as JSON.

        Raise AssertionError if the block fails.
        """
        if not runs(text):
            return None
        self.ran += 1
        text = text.replace(URL, self.url)
        for told, now in self.drawn.items():
            text = text.replace(told, now)
        written = self._shell(text) if language == "sh" else self._python(text)
        assert '{"error":' not in written or '"error":' in (shown or ""), written
        if shown is None:
            return None
        last = written.splitlines()[-1]  # a document shows the answer of the last command
        return json.loads(last) if language == "sh" else ast.literal_eval(last)

    def close(self):
        """Close the clients that the document left open, as the end of a program does."""
        for value in self._names.values():
            if isinstance(value, Client):
                value.close()

    def _shell(self, text):
        line = re.sub(r"\bcurl ", "curl -sS -w '\\\\n' ", text)
        ended = subprocess.run(
            ["sh", "-ec", line],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=self.folder,
            env=self._env,
            check=False,
        )
        assert ended.returncode == 0, f"{text}{ended.stdout}{ended.stderr}"
        return ended.stdout

    def _python(self, text):
        written = io.StringIO()
        with contextlib.redirect_stdout(written), contextlib.chdir(self.folder):
            exec(compile(text, "document", "exec"), self._names)  # noqa: S102 - our own documents
        return written.getvalue()


def runs(text):
    """Return whether the walk runs a block. Such a block installs nothing and ends on its own."""
    return not text.startswith(NOT_RUN)


def blocks(document):
    """Return the blocks of a document in order: (language, text, the shown answer or None)."""
    return [(match[1], match[2], match[3]) for match in BLOCK.finditer((ROOT / document).read_text())]


def alike(shown, got, drawn=None):
    """Return whether two answers have the same keys, lengths, types, words and floats. Integers and times may differ.

    drawn: receives each random value as shown, with the value of this run.
    """
    if type(shown) is not type(got):
        return False
    if isinstance(shown, dict):
        if drawn is not None:
            drawn.update({shown[key]: got[key] for key in DRAWN if isinstance(shown.get(key), str) and key in got})
        return list(shown) == list(got) and all(
            (key in DRAWN and drawn is not None) or (key in LATE and not got[key]) or alike(shown[key], got[key], drawn)
            for key in shown
        )
    if isinstance(shown, list):
        return len(shown) == len(got) and all(alike(a, b, drawn) for a, b in zip(shown, got, strict=True))
    if isinstance(shown, str) and TIME.fullmatch(shown):
        return TIME.fullmatch(got) is not None
    return type(shown) is int or shown == got


def laid_out(value, indent=0):
    """Return a value as JSON text. A value that fits into WIDTH is on one line; a longer value has a line for each
    item.
    """
    flat = json.dumps(value, ensure_ascii=False)
    if indent + len(flat) <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {laid_out(part, indent + 2)}" for key, part in value.items()]
        brackets = "{}"
    else:
        parts = [laid_out(part, indent + 2) for part in value]
        brackets = "[]"
    return brackets[0] + "\n" + ",\n".join(pad + part for part in parts) + "\n" + " " * indent + brackets[1]


def refresh(document):
    """Write the answers of a fresh server into a document. Random values stay as the document shows them."""
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder) / "data") as server:
        walk = Walk(server.url, folder)

        def asked(match):
            got = walk(match[1], match[2], match[3])
            if got is None:
                return match[0]
            with contextlib.suppress(ValueError):  # the document shows "..." instead of an answer
                alike(json.loads(match[3]), got, walk.drawn)
            text = laid_out(got)
            for told, now in walk.drawn.items():
                text = text.replace(now, told)
            return f"```{match[1]}\n{match[2]}```\n\n```json\n{text}\n```\n"

        path = ROOT / document
        path.write_text(BLOCK.sub(asked, path.read_text()))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(name)
