"""`hinged demo`: a server that learns a real stream while you watch, beside a batch SVM that is refitted now and then.
A second model knows three digits badly, until a person labels some of them.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hinged.client.client import Client, HingedError
from hinged.commands.child import ServerProcess, free_port
from hinged.commands.options import SeveralLines
from hinged.commands.rows import PlacedExample
from hinged.commands.stream import (
    StreamResult,
    Waiting,
    await_model,
    percent,
    say,
    show_curl,
    show_table,
    stream_and_finish,
)
from hinged.extras import require

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

HOST = "127.0.0.1"
MODEL = "demo-digits"
UNSURE = "demo-labels"  # the model to label
GAMMA = 0.05
C = 10.0
TOL = 0.001
# Use small batches, so that the curve grows while you watch.
BATCH = 1
SIDE = 8  # pixels along a side of a digit
LATE = (3, 8, 9)  # digits that first appear after EARLY digits of the stream, and that the model to label knows badly
EARLY = 700
REFIT = 100  # number of examples after which the batch SVM is refitted
RECENT = 1000  # number of predictions in the server's window (service/model/metrics.py)
TO_LABEL = 200  # number of digits that wait in the pool for a label
TAUGHT = 400  # number of digits that the model to label learns at first
PER_ANSWER = 30  # number of digits that the model to label learns after each answer of a person
FAINT = 0.001  # weight of the streamed labels of LATE. At 1 the stream would teach what the person should
TOLD = 10  # number of answers after which the terminal says how good the model has become
SHUFFLE_SEED = 0
WATCHED_S = 20.0  # seconds for which the digits wait for somebody to open the page
STREAMS = re.compile(r"^hinged_open_streams (\S+)$", re.MULTILINE)
"""Metric of open streams. A page that shows a model follows the events of the model, and so counts as a stream."""
READY_S = 600.0
NOTE_S = 10.0
LOOK_S = 0.2  # seconds between two looks for answers of a person
COMPILED = re.compile(r"compiled \d+ functions")
"""A line in the server's log while the server compiles."""


@dataclass(frozen=True)
class Digits:
    """The digits of scikit-learn, with pixels in [0, 1], shuffled. The last quarter is held out."""

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any

    def appearing(self) -> Digits:
        """Return the digits in the order of the stream: the first of LATE come after EARLY digits."""
        import numpy as np  # noqa: PLC0415

        early = np.flatnonzero(~np.isin(self.y_train, LATE))[:EARLY]
        order = np.concatenate([early, np.setdiff1d(np.arange(len(self.y_train)), early)])
        return replace(self, X_train=self.X_train[order], y_train=self.y_train[order])


def demo(port: int, data_dir: Path, *, stay: bool, console: Console) -> None:
    """Start a server, stream the digits into it, compare it with a batch SVM, and wait until interrupted."""
    require("demo", "hinged demo", "fastapi", "numba", "sklearn")
    try:
        free = free_port(HOST, port)
    except OSError as error:
        raise SeveralLines(str(error)) from error
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
                if stay:
                    answer_to_labels(server, client, console)
            except HingedError as error:
                if server.running:
                    raise
                raise died(server) from error
            if stay:
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
                raise SeveralLines(f"the server is not ready after {READY_S:g} s; {server.last_output()}")
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


def died(server: ServerProcess) -> SeveralLines:
    """Return the error for a server that ended by itself."""
    return SeveralLines(f"the server ended by itself; its last output:\n{server.last_output()}")


def compare(client: Client, console: Console, *, waits: bool) -> None:
    """Stream the digits, refit a batch SVM beside the stream, and print the figures of both. waits: whether to wait for
    somebody to open the page.
    """
    from hinged.readers.arrays import ArrayRows, ArraySource, labels_of  # noqa: PLC0415 - numpy is slow to import

    digits = load_digits().appearing()
    held_out = ArraySource("digits", ArrayRows("digits", digits.X_test), labels_of("digits", digits.y_test))
    source = ArraySource(
        "digits", ArrayRows("digits", digits.X_train), labels_of("digits", digits.y_train), held_out=held_out
    )
    fresh_model(client, MODEL, console)
    say(console, f"watch it learn: {client.url}/ui#/models/{MODEL}")
    if waits:
        await_watched(client, console)
    say(
        console,
        f"streaming {source.rows:,} handwritten digits of {source.dim} pixels, one at a time; {LATE[0]}, {LATE[1]} and "
        f"{LATE[2]} appear after {EARLY}; {held_out.rows} are held out",
    )
    streamed, finished = stream_and_finish(
        client,
        MODEL,
        (PlacedExample(None, {"id": f"digit-{row.row}", "x": row.x, "y": row.y}) for row in source),
        rows=source.rows,
        held_out=held_out,
        batch=BATCH,
        finish=True,
        console=console,
    )
    streamed = replace(streamed, recent_accuracy=client.model(MODEL)["metrics"]["window"]["accuracy"])
    with Waiting(console, f"fitting a batch SVM after each {REFIT} of the same examples"):
        batch = batch_standing(digits)
    show_table(console, [streamed, finished, batch])
    each = (batch.seconds or 0.0) * REFIT
    say(
        console,
        f"Until its next fit, the batch SVM does not know a label. A fit after every label would take about {each:.0f} "
        f"s. The server stored and learned each label in {1000.0 / (streamed.examples_per_s or 1.0):.0f} ms.\n",
    )
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


def fresh_model(client: Client, model: str, console: Console) -> None:
    """Create a model. Replace the model of an earlier run."""
    try:
        client.model(model)
    except HingedError as error:
        if error.code != "not_found":
            raise
    else:
        client.delete_model(model)
        say(console, f"deleted the model {model} of an earlier run")
    made = client.create_model(
        model,
        solver="lasvm",
        kernel={"type": "rbf", "gamma": GAMMA},
        C=C,
        tol=TOL,
        features={"type": "dense", "dim": SIDE * SIDE},
        classes=None,
        show={"image": [SIDE, SIDE]},
        seed=0,
    )
    await_model(client, model, made, console)


class Unsure:
    """A model that knows three digits badly: their streamed labels count a thousandth. Its pool holds digits to label.

    After each answer of a person the stream brings more digits. So the curve shows how good the model has become.
    """

    def __init__(self, client: Client, console: Console) -> None:
        self._client, self._digits = client, load_digits()
        self._streamed = self._answered = 0
        fresh_model(client, UNSURE, console)
        pool = enumerate(self._digits.X_test[:TO_LABEL])
        client.offer(UNSURE, [{"id": f"unlabelled-{k}", "x": x.tolist()} for k, x in pool])
        self._stream(TAUGHT)

    def _stream(self, n: int) -> None:
        """Stream the next n digits."""
        digits, begin = self._digits, self._streamed
        self._streamed = min(begin + n, len(digits.y_train))
        examples = [
            {"id": f"digit-{k}", "x": x.tolist(), "y": int(y), **({"weight": FAINT} if y in LATE else {})}
            for k, (x, y) in enumerate(zip(digits.X_train, digits.y_train, strict=True))
            if begin <= k < self._streamed
        ]
        if examples:
            self._client.learn(UNSURE, examples)

    def accuracy(self) -> float:
        """Return the share of correct predictions for the digits that are neither streamed nor in the pool."""
        X, y = self._digits.X_test[TO_LABEL:], self._digits.y_test[TO_LABEL:]
        results = self._client.predict(UNSURE, [{"x": x.tolist()} for x in X])["results"]
        return sum(int(label) == result["prediction"] for label, result in zip(y, results, strict=True)) / len(y)

    def look(self) -> int | None:
        """Stream more digits if there are new answers. Return the number of answers if it has passed a multiple of
        TOLD.
        """
        before, self._answered = self._answered, self._client.model(UNSURE)["pool"]["answered"]
        self._stream(PER_ANSWER * max(0, self._answered - before))
        return self._answered if self._answered // TOLD > before // TOLD else None


def answer_to_labels(server: ServerProcess, client: Client, console: Console) -> None:
    """Make the model to label, and say how its accuracy rises with the answers, until the server ends."""
    unsure = Unsure(client, console)
    say(
        console,
        f"\nThe model {UNSURE} knows {LATE[0]}, {LATE[1]} and {LATE[2]} badly: {percent(unsure.accuracy())} of other "
        f"digits are right. Label some of {TO_LABEL}: {client.url}/ui#/models/{UNSURE}/label",
    )
    say(console, f"The server goes on at {client.url}; Ctrl-C stops it.")
    while server.running:
        try:
            if answered := unsure.look():
                say(console, f"after {answered} answers: {percent(unsure.accuracy())} right")
        except HingedError as error:
            if error.code != "not_found":
                raise
            server.wait()  # somebody has deleted the model
        time.sleep(LOOK_S)


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
    """Fit scikit-learn's SVC with the same kernel and C after each REFIT examples; each fit predicts the examples until
    the next. Return the figures.
    """
    from sklearn.svm import SVC  # noqa: PLC0415 - takes a second

    X, y = digits.X_train, digits.y_train
    machine, seconds, right = SVC(kernel="rbf", gamma=GAMMA, C=C, tol=TOL), 0.0, []
    for end in range(REFIT, len(y) + REFIT, REFIT):
        started = time.perf_counter()
        machine.fit(X[:end], y[:end])
        seconds += time.perf_counter() - started
        if end < len(y):
            right.extend(machine.predict(X[end : end + REFIT]) == y[end : end + REFIT])
    recent = right[-RECENT:]
    return StreamResult(
        f"batch SVM, each {REFIT}",
        recent_accuracy=sum(map(int, recent)) / len(recent),
        held_out_accuracy=float(machine.score(digits.X_test, digits.y_test)),
        support_vectors=len(machine.support_),
        seconds=seconds,
    )
