"""The examples of the documents: a ```sh block that begins with curl, and behind it the answer as a ```json block.

    python tests/doc_examples.py README.md docs/http.md

asks a real server again and writes its answers into the documents. tests/test_docs.py compares.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from running import ROOT, RunningServer

URL = "http://127.0.0.1:8000"
EXAMPLE = re.compile(r"```sh\n(curl (?:(?!```).)*)```\n\n```json\n(.*?)```", re.DOTALL)
WIDTH = 108


def examples(document):
    """(command, answer as shown) of a document, in order."""
    return [(match[1], match[2]) for match in EXAMPLE.finditer((ROOT / document).read_text())]


def answer(command, url):
    """What the server at `url` answers to a command line of a document."""
    line = command.replace(URL, url).replace("curl ", "curl -sS ", 1)
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(ended.stdout)


def alike(shown, got):
    """Whether two answers have one shape: the same keys, lengths, types and words; figures may differ."""
    if type(shown) is not type(got):
        return False
    if isinstance(shown, dict):
        return list(shown) == list(got) and all(alike(shown[key], got[key]) for key in shown)
    if isinstance(shown, list):
        return len(shown) == len(got) and all(map(alike, shown, got))
    return (isinstance(shown, int | float) and not isinstance(shown, bool)) or shown == got


def laid_out(value, indent=0):
    """JSON text that breaks its lines where a person would."""
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
    """Write the answers of a fresh server into a document."""
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder) / "data") as server:

        def asked(match):
            return f"```sh\n{match[1]}```\n\n```json\n{laid_out(answer(match[1], server.url))}\n```"

        path = ROOT / document
        path.write_text(EXAMPLE.sub(asked, path.read_text()))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(name)
