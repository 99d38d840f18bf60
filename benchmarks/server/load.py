"""Clients in a process of their own that send prepared bytes and read nothing but status and length. Not a program.

One thread and one epoll for all connections, each with one request under way: some 30 us a request, so that on a
machine with two cores the server is the bottleneck (httpx takes 400 us a request).
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
    """Answered requests, their seconds, the latency of each, and the clients' CPU seconds.

    waits: the latency since a request was first sent, if it was refused before. refused: the number of refusals.
    clients: the client of each request.
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
        """Requests a second."""
        return self.requests / self.seconds

    def quantile_ms(self, q):
        """A quantile of the latencies, milliseconds."""
        return 1000.0 * float(np.quantile(self.latencies, q))


def request_bytes(method, path, body=b"", media_type="application/json"):
    """The bytes of a whole request."""
    lines = (
        f"{method} {path} HTTP/1.1",
        "host: localhost",
        f"content-type: {media_type}",
        f"content-length: {len(body)}",
    )
    head = "\r\n".join((*lines, "", ""))
    return head.encode() + body


class Load:
    """Starts sending at once, until all is sent or `seconds` are over; `result` waits for the figures.

    requests: all requests, taken by any free connection, and again from the front if `seconds` are given. patient: a
    request that is refused with 429 is sent again when the answer says.
    """

    def __init__(self, port, requests, connections=1, seconds=None, *, patient=False):
        context = multiprocessing.get_context("spawn")
        self._mine, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(theirs, port, requests, connections, seconds, patient))
        self._process.start()
        theirs.close()
        self._mine.recv()  # it has connected
        self._mine.send("go")

    def stop(self):
        """Send nothing more; the figures so far."""
        self._mine.send("stop")
        return self.result()

    def result(self):
        """The figures; RuntimeError for an answer that is no success."""
        found = self._mine.recv()
        self._process.join()
        if isinstance(found, Loaded):
            return found
        raise RuntimeError(found)


def load(port, requests, connections=1, seconds=None, *, patient=False):
    """The figures of one load."""
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
    refused, later = 0, []  # a heap: when, whose, what
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
    """The number in a header."""
    at = head.lower().find(name) + len(name)
    return int(head[at : (head + b"\r").find(b"\r", at)])
