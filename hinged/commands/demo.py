"""`hinged demo`: a server that learns a real stream while you watch. The demonstration compares the model's accuracy
with a batch SVM.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hinged.client.client import Client, HingedError
from hinged.commands.child import ServerProcess, free_port
from hinged.commands.rows import PlacedExample
from hinged.commands.stream import (
    StreamResult,
    Waiting,
    await_model,
    say,
    show_curl,
    show_table,
    stream_and_finish,
)
from hinged.extras import require

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from hinged.readers.arrays import ArraySource

HOST = "127.0.0.1"
MODEL = "demo-digits"
GAMMA = 0.05
C = 10.0
TOL = 0.001
# Use small batches, so that the curve grows while you watch.
BATCH = 1
SIDE = 8  # pixels along a side of a digit
TO_LABEL = 200  # number of digits that stay in the pool without a label
SHUFFLE_SEED = 0
WATCHED_S = 20.0  # seconds for which the digits wait for somebody to open the page
STREAMS = re.compile(r"^hinged_open_streams (\S+)$", re.MULTILINE)
"""Metric of open streams. A page that shows a model follows the events of the model, and so counts as a stream."""
READY_S = 600.0
NOTE_S = 10.0
COMPILED = re.compile(r"compiled \d+ of \d+ functions")
"""A line in the server's log while the server compiles."""


class DemoError(Exception):
    """The demonstration cannot continue. The message is one sentence, perhaps followed by the server's output."""


@dataclass(frozen=True)
class Digits:
    """The digits of scikit-learn, with pixels in [0, 1], shuffled. The last quarter is held out."""

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any


def demo(port: int, data_dir: Path, *, stay: bool, console: Console) -> None:
    """Start a server, stream the digits into it, compare it with a batch SVM, and wait until interrupted."""
    require("demo", "hinged demo", "fastapi", "numba", "sklearn")
    try:
        free = free_port(HOST, port)
    except OSError as error:
        raise DemoError(str(error)) from error
    if port not in {0, free}:
        say(console, f"port {port} is taken, using {free}")
    url = f"http://{HOST}:{free}"
    say(console, f"starting a server on {url}, data in {data_dir}")
    arguments = ["--host", HOST, "--port", str(free), "--data-dir", str(data_dir)]
    try:
        with ServerProcess(arguments) as server, Client(url, key=os.environ.get("HINGED_KEY") or None) as client:
            try:
                await_ready(server, client, console)
                compare(client, console, waits=stay and console.is_terminal)
            except HingedError as error:
                if server.running:
                    raise
                raise died(server) from error
            if stay:
                say(console, f"\n{TO_LABEL} digits wait for a label: {url}/ui#/models/{MODEL}/label")
                say(console, f"The server goes on at {url}; Ctrl-C stops it.")
                server.wait()
                raise died(server)
    except KeyboardInterrupt:
        say(console, "\nserver stopped")


def await_ready(server: ServerProcess, client: Client, console: Console) -> None:
    """Wait until the server has compiled its kernels."""
    started = noted = time.monotonic()
    with Waiting(
        console, "starting (the first start on a machine compiles the kernels: 12 s on two idle cores)"
    ) as waiting:
        while not answers(client):
            now = time.monotonic()
            if not server.running:
                raise died(server)
            if now - started > READY_S:
                raise DemoError(f"the server is not ready after {READY_S:g} s; {server.last_output()}")
            if (compiled := COMPILED.search(server.last_line())) is not None:
                waiting.now(compiled[0])
            if now - noted >= NOTE_S and not console.is_terminal:
                say(console, f"not ready after {now - started:.0f} s: {compiled[0] if compiled else 'starting'}")
                noted = now
            time.sleep(0.1)
    say(console, f"ready after {time.monotonic() - started:.1f} s")


def answers(client: Client) -> bool:
    """Return whether the server is ready. Return False while the server does not listen."""
    try:
        return client.ready()
    except HingedError as error:
        if error.code != "unreachable":
            raise
        return False


def died(server: ServerProcess) -> DemoError:
    """Return the error for a server that ended by itself."""
    return DemoError(f"the server ended by itself; its last output:\n{server.last_output()}")


def compare(client: Client, console: Console, *, waits: bool) -> None:
    """Learn the digits as a stream and as a batch, and print both results. waits: whether to wait for somebody to open
    the page.
    """
    from hinged.readers.arrays import ArrayRows, ArraySource, labels_of  # noqa: PLC0415 - numpy is slow to import

    digits = load_digits()
    held_out = ArraySource("digits", ArrayRows("digits", digits.X_test), labels_of("digits", digits.y_test))
    source = ArraySource(
        "digits", ArrayRows("digits", digits.X_train), labels_of("digits", digits.y_train), held_out=held_out
    )
    fresh_model(client, source, console)
    # Held-out digits are learned only if a person labels them. Digits that people label are not part of the comparison.
    client.offer(MODEL, [{"id": f"unlabelled-{k}", "x": x.tolist()} for k, x in enumerate(digits.X_test[:TO_LABEL])])
    say(console, f"watch it learn: {client.url}/ui#/models/{MODEL}")
    if waits:
        await_watched(client, console)
    say(
        console,
        f"streaming {source.rows:,} handwritten digits of {source.dim} pixels, one at a time; "
        f"{held_out.rows} are held out",
    )
    standings = stream_and_finish(
        client,
        MODEL,
        (PlacedExample(None, {"id": f"digit-{row.row}", "x": row.x, "y": row.y}) for row in source),
        rows=source.rows,
        held_out=held_out,
        batch=BATCH,
        finish=True,
        console=console,
    )
    with Waiting(console, "training a batch SVM on the same examples"):
        standings.append(batch_standing(digits))
    show_table(console, standings)
    row = next(iter(held_out))
    show_curl(console, client.url, MODEL, x=row.x, y=row.y)


def await_watched(client: Client, console: Console) -> None:
    """Wait for a limited time until somebody opens the page, so that the person sees the curve from its beginning."""
    end = time.monotonic() + WATCHED_S
    with Waiting(console, f"open it now: the stream begins when you do, or in {WATCHED_S:g} s"):
        while time.monotonic() < end:
            try:
                found = STREAMS.search(client.metrics())
            except HingedError as error:
                if error.status is None:
                    raise
                return  # this key may not read the metrics
            if found is None or float(found[1]) > 0:
                return
            time.sleep(0.2)


def fresh_model(client: Client, source: ArraySource, console: Console) -> None:
    """Create the model. Replace the model of an earlier run."""
    try:
        client.model(MODEL)
    except HingedError as error:
        if error.code != "not_found":
            raise
    else:
        client.delete_model(MODEL)
        say(console, f"deleted the model {MODEL} of an earlier run")
    made = client.create_model(
        MODEL,
        solver="lasvm",
        kernel={"type": "rbf", "gamma": GAMMA},
        C=C,
        tol=TOL,
        features=source.features,
        classes=None,
        show={"image": [SIDE, SIDE]},
        seed=0,
    )
    await_model(client, MODEL, made, console)


def load_digits() -> Digits:
    """Return 1,797 digits of 8 x 8 pixels, always in the same order."""
    import numpy as np  # noqa: PLC0415 - as sklearn, only the demonstration needs it
    from sklearn import datasets  # noqa: PLC0415

    X, y = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(SHUFFLE_SEED).permutation(len(X))
    X, y = X[order] / 16.0, y[order]
    train = len(X) * 3 // 4
    return Digits(X[:train], y[:train], X[train:], y[train:])


def batch_standing(digits: Digits) -> StreamResult:
    """Train scikit-learn's SVC with the same kernel and C, and return its figures."""
    from sklearn.svm import SVC  # noqa: PLC0415 - takes a second

    started = time.perf_counter()
    machine = SVC(kernel="rbf", gamma=GAMMA, C=C, tol=TOL).fit(digits.X_train, digits.y_train)
    seconds = time.perf_counter() - started
    return StreamResult(
        "batch SVM",
        held_out_accuracy=float(machine.score(digits.X_test, digits.y_test)),
        support_vectors=len(machine.support_),
        seconds=seconds,
    )
