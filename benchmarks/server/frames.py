"""WebSocket frames with one example each, sent without waiting: prepared bytes, and frames from the client's Stream.

    PYTHONPATH=.:benchmarks python benchmarks/server/frames.py [--frames 20000] [--turns 3]

Rows have 20 numbers, and the model is BSCA with 100 points. The server answers a frame when its example is on disk. The
table shows CPU microseconds per frame separately for the server and for the sender, because both share the processors.
"""

import argparse
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
from results import Table, keep
from targets import middle, span

from hinged import Client
from tests.helpers.server import RunningServer

DIM = 20
CHEAP = {"solver": "bsca", "C": 0.25, "budget": 100, "kernel": {"type": "rbf", "gamma": 0.05}}
TICKS = os.sysconf("SC_CLK_TCK")
HEAD = (
    "GET /models/{model}/stream HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
OWN = "--as-client"


class Found(NamedTuple):
    """The results of a run: frames per second, and CPU microseconds per frame for the server and for the sender."""

    rate: float
    server_us: float
    sender_us: float


def examples(frames):
    """Return prepared examples with labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((frames, DIM)).round(4)
    y = X[:, 0] * X[:, 1] + X[:, 2] > 0.5 * rng.standard_normal(frames)
    return [{"x": x, "y": bool(label)} for x, label in zip(X.tolist(), y.tolist(), strict=True)]


def masked(text):
    """Return a text frame as a client sends it. A mask of 0 leaves the payload unchanged."""
    data = text.encode()
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
    return b"\x81" + size + bytes(4) + data


def raw(port, model, what, taught):
    """Send prepared frames as fast as the server accepts them, and count the answers."""
    several = ({"op": what, "ref": str(r), **body} for r, body in enumerate(taught))
    data = b"".join(masked(json.dumps(frame)) for frame in several)
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.sendall(HEAD.format(model=model).encode())
    received = b""
    while b"\r\n\r\n" not in received:
        received += line.recv(1 << 16)
    received = received.partition(b"\r\n\r\n")[2]
    began, before = time.perf_counter(), time.process_time()
    threading.Thread(target=line.sendall, args=(data,), daemon=True).start()
    left, failed = len(taught), 0
    while left:
        received += line.recv(1 << 18)
        at = 0
        while len(received) - at >= 4:
            size, head = received[at + 1], 2
            if size == 126:
                size, head = int.from_bytes(received[at + 2 : at + 4]), 4
            if len(received) - at < head + size:
                break
            if received[at] == 0x81:  # not a ping
                left -= 1
                failed += b'"ok":true' not in received[at + head : at + head + 60]
            at += head + size
        received = received[at:]
    seconds, cpu = time.perf_counter() - began, time.process_time() - before
    line.close()
    return seconds, cpu, failed


def streamed(port, model, what, taught):
    """Send the same frames with the client."""
    failed = 0
    with Client(f"http://127.0.0.1:{port}") as client, client.stream(model) as stream:
        began, before = time.perf_counter(), time.process_time()
        for answer in [getattr(stream, what)([body]) for body in taught]:
            failed += "results" not in answer.result()
        return time.perf_counter() - began, time.process_time() - before, failed


SENDERS = {"prepared bytes": raw, "Stream": streamed}


def as_client(arguments):
    """Run the sender's process: print seconds, CPU seconds and the number of failures."""
    sender, port, model, what, frames = arguments
    taught = examples(int(frames))
    if what == "predict":
        taught = [{"x": body["x"]} for body in taught]
    print(json.dumps(SENDERS[sender](int(port), model, what, taught)))


def cpu_s(pid):
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS


def measured(server, sender, model, what, frames):
    """Measure one run in a separate process."""
    before = cpu_s(server.process.pid)
    command = [sys.executable, __file__, OWN, sender, str(server.port), model, what, str(frames)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, cpu, failed = json.loads(told)
    if failed:
        raise RuntimeError(f"{failed} of {frames} frames failed")
    return Found(frames / seconds, 1e6 * (cpu_s(server.process.pid) - before) / frames, 1e6 * cpu / frames)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder) / "data") as server:
        body = {**CHEAP, "features": {"type": "dense", "dim": DIM, "scale": None}}
        httpx.put(f"{server.url}/models/m", json=body, timeout=300).raise_for_status()
        measured(server, "prepared bytes", "m", "learn", 2_000)
        for _, what, sender in itertools.product(range(options.turns), ("learn", "predict"), SENDERS):
            found.setdefault((what, sender), []).append(measured(server, sender, "m", what, options.frames))
        events = httpx.get(f"{server.url}/models/m").json()["position"]
    learned = 2_000 + options.frames * options.turns * len(SENDERS)
    table = Table("frames", "sent by", "frames a second", "server, us of CPU a frame", "sender, us of CPU a frame")
    for (what, sender), runs in found.items():
        rates = f"{middle(runs, 'rate'):,.0f} ({span(runs, 0, 'rate')})"
        table.add(what, sender, rates, *(f"{middle(runs, name):.0f}" for name in ("server_us", "sender_us")))
    print(f"\n{learned:,} examples in {events:,} events")
    keep("frames", table)


if __name__ == "__main__":
    if OWN in sys.argv:
        as_client(sys.argv[sys.argv.index(OWN) + 1 :])
    else:
        main()
