"""Seconds from `git clone` to the first prediction, as for a new user: clone, `make run`, ask.

    python benchmarks/first_prediction.py

Packages come from pip's index; numba's cache is empty, so every kernel is compiled.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from results import Table, keep

ROOT = Path(__file__).parent.parent
QUESTION = "http://127.0.0.1:8000/models/demo-digits/predict?x=" + json.dumps([0] * 64, separators=(",", ":"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "hinged"
        start = time.monotonic()
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        cloned = time.monotonic() - start
        environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {
            "XDG_CACHE_HOME": str(Path(folder) / "cache")
        }
        with (Path(folder) / "out.txt").open("w") as out:
            run = subprocess.Popen(["make", "run"], cwd=clone, env=environment, stdout=out, start_new_session=True)
        try:
            installed = None
            while True:
                if installed is None and (clone / ".venv" / ".installed-demo").exists():
                    installed = time.monotonic() - start
                try:
                    with urllib.request.urlopen(QUESTION, timeout=5) as answer:
                        if json.load(answer)["results"][0]["prediction"] is not None:
                            break
                except (urllib.error.URLError, ConnectionError):
                    pass
                if run.poll() is not None:
                    raise SystemExit((Path(folder) / "out.txt").read_text())
                time.sleep(0.05)
            first = time.monotonic() - start
        finally:
            os.killpg(run.pid, signal.SIGINT)
            run.wait(60)
        table = Table("cloned, s", "installed, s", "first prediction, s")
        table.add(*(f"{seconds:.1f}" for seconds in (cloned, installed, first)))
        keep("first_prediction", table)


if __name__ == "__main__":
    main()
