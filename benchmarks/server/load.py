"""Clients in a separate process that send prepared bytes and read only status and length. Not a program.

One thread with one epoll handles all connections, and each connection has one request at a time. A request takes the
thread about 30 us. So on a machine with two cores the server is the bottleneck (httpx takes 400 us per request).
"""

import heapq
import multiprocessing
import selectors
import socket
import time
from collections import deque
from typing import NamedTuple

import numpy as np


class Loaded(NamedTuple):
    """The result of a load: number of answers, total seconds, latency of each request, and the clients' CPU seconds.

    waits: for each request that was refused at first, the time from its first sending to its answer. refused: number of
    refusals. clients: the client of each request.
    """

    requests: int
    seconds: float
    latencies: np.ndarray
    cpu_s: float
    waits: np.ndarray
    refused: int
    clients: np.ndarray

    @property
    def rate(self):
        """Requests per second."""
        return self.requests / self.seconds

    def quantile_ms(self, q):
        """Return a quantile of the latencies in milliseconds."""
        return 1000.0 * float(np.quantile(self.latencies, q))


def request_bytes(method, path, body=b"", media_type="application/json"):
    """Return the bytes of a whole request."""
    lines = (
        f"{method} {path} HTTP/1.1",
        "host: localhost",
        f"content-type: {media_type}",
        f"content-length: {len(body)}",
    )
    head = "\r\n".join((*lines, "", ""))
    return head.encode() + body


class Load:
    """Clients that all start to send at once, and stop when all requests are sent or `seconds` have passed.

    `result` returns the measurements.

    requests: all requests. Any free connection sends the next request; with `seconds`, the list is repeated. patient: a
    request that is refused with 429 is sent again after the time that the answer states.
    """

    def __init__(self, port, requests, connections=1, seconds=None, *, patient=False):
        context = multiprocessing.get_context("spawn")
        self._mine, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(theirs, port, requests, connections, seconds, patient))
        self._process.start()
        theirs.close()
        self._mine.recv()  # the process has connected
        self._mine.send("go")

    def stop(self):
        """Stop sending, and return the measurements so far."""
        self._mine.send("stop")
        return self.result()

    def result(self):
        """Return the measurements. Raise RuntimeError for an answer that is not a success."""
        found = self._mine.recv()
        self._process.join()
        if isinstance(found, Loaded):
            return found
        raise RuntimeError(found)


def load(port, requests, connections=1, seconds=None, *, patient=False):
    """Run one load and return its measurements."""
    return Load(port, requests, connections, seconds, patient=patient).result()


def _run(pipe, port, requests, connections, seconds, patient):
    selector = selectors.DefaultSelector()
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    for s in sockets:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(s, selectors.EVENT_READ)
    pipe.send("ready")
    pipe.recv()
    left, latencies, waits, clients = deque(requests), [], [], []
    received, sent_at, busy = dict.fromkeys(sockets, b""), {}, 0
    number, sent, first_sent_at = {s: k for k, s in enumerate(sockets)}, {}, {}
    refused, later = 0, []  # a heap of (time, client, request)
    began = now = time.perf_counter()
    cpu_began = time.process_time()

    def send(s):
        nonlocal busy
        if not left or (seconds is not None and now - began >= seconds) or pipe.poll():
            return
        data = left.popleft()
        if seconds is not None:
            left.append(data)
        sent[s] = data
        sent_at[s] = first_sent_at[s] = time.perf_counter()
        s.sendall(data)
        busy += 1

    for s in sockets:
        send(s)
    while busy:
        while later and later[0][0] <= time.perf_counter():
            s = sockets[heapq.heappop(later)[1]]
            sent_at[s] = time.perf_counter()
            s.sendall(sent[s])
        for key, _ in selector.select(max(0.0, later[0][0] - time.perf_counter()) if later else None):
            s = key.fileobj
            data = received[s] + s.recv(1 << 20)
            head, found, body = data.partition(b"\r\n\r\n")
            if not found or len(body) < _number(head, b"content-length:"):
                received[s] = data
                continue
            now = time.perf_counter()
            received[s] = b""
            if patient and head.startswith(b"HTTP/1.1 429"):
                refused += 1
                heapq.heappush(later, (now + _number(head, b"retry-after:"), number[s]))
                continue
            if not head.startswith(b"HTTP/1.1 200"):
                pipe.send(data[:1000].decode())
                return
            latencies.append(now - sent_at[s])
            waits.append(now - first_sent_at[s])
            clients.append(number[s])
            busy -= 1
            send(s)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    found = np.array(latencies), cpu_s, np.array(waits), refused, np.array(clients, np.int64)
    pipe.send(Loaded(len(latencies), seconds, *found))


def _number(head, name):
    """Return the number in a header."""
    at = head.lower().find(name) + len(name)
    return int(head[at : (head + b"\r").find(b"\r", at)])
