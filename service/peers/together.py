"""What is asked of a server that is several processes, and about no model: each answers for itself, one for all.

A list that lacks models without a word would be wrong, so it needs all of them; the server is ready when all are; and
the metrics of each get a label, `process`, and say who does not answer. They ask each other over Unix sockets.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import httpcore
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hinged.operations import ModelOperations, ServerOperations
from hinged.service.edge.middleware import JSON, error_response
from hinged.service.errors import Invalid, ServiceError, Unavailable
from hinged.service.peers.paths import target_of

log = logging.getLogger(__name__)

ASK_S = 10.0
"""How long another process may take to answer."""
PATIENCE = dict.fromkeys(("connect", "read", "write", "pool"), ASK_S)
SAID = (b"authorization", b"accept", b"host")
"""Headers that the others are told."""
FOR_ITSELF = b"hinged-for-itself"
"""The header with which a process is asked for what is its own alone."""
NO_ANSWER = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
UP = "hinged_process_up"
SAMPLE = re.compile(rb"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{)?")
"""The name of a sample, and whether labels follow."""


class Answer(NamedTuple):
    """What a process has answered, status 0 where it has not."""

    number: int
    status: int
    body: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = ()


class Together:
    """ASGI middleware before the front."""

    def __init__(self, front: ASGIApp, app: ASGIApp, number: int, others: Mapping[int, Path]) -> None:
        """front: where all else goes. app: answers for this process alone. others: where to ask them, by number."""
        self._front = front
        self._app = app
        self._number = number
        self._pools = {other: httpcore.AsyncConnectionPool(uds=str(path)) for other, path in others.items()}

    async def close(self) -> None:
        """Close the connections to the others."""
        for pool in self._pools.values():
            await pool.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for all, where that is what is asked."""
        put = PUT_TOGETHER.get(scope["path"].rstrip("/")) if scope["type"] == "http" else None
        if put is None or scope["method"] != "GET" or any(name == FOR_ITSELF for name, _ in scope["headers"]):
            await self._front(scope, receive, send)
            return
        mine = await self._own(scope, receive)
        response = Response(mine.body, mine.status)
        response.raw_headers = list(mine.headers)
        late = put is put_ready or (put is put_readiness and mine.status == HTTPStatus.SERVICE_UNAVAILABLE)
        if mine.status == HTTPStatus.OK or late:  # otherwise it is a refusal, and no other's answer changes that
            others = await asyncio.gather(*(self._ask(number, scope) for number in self._pools))
            try:
                response = put(mine, others)
            except ServiceError as error:
                response = error_response(error, scope["path"])
        await response(scope, receive, send)

    async def _own(self, scope: Scope, receive: Receive) -> Answer:
        status, headers, parts = 0, [], []

        async def keep(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], message["headers"]
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, keep)
        return Answer(self._number, status, b"".join(parts), headers)

    async def _ask(self, number: int, scope: Scope) -> Answer:
        headers = [(name, value) for name, value in scope["headers"] if name in SAID] + [(FOR_ITSELF, b"")]
        url = httpcore.URL(scheme=b"http", host=b"localhost", port=None, target=target_of(scope))
        try:
            answer = await self._pools[number].request("GET", url, headers=headers, extensions={"timeout": PATIENCE})
        except NO_ANSWER as error:
            log.warning("process %d does not answer: %s", number, error)
            return Answer(number, 0)
        return Answer(number, answer.status, answer.content)


def put_models(mine: Answer, others: Sequence[Answer]) -> Response:
    """The models of all, by name. Unavailable where one of the processes does not tell of its own."""
    found: list[dict[str, Any]] = []
    for answer in (mine, *others):
        if answer.status != HTTPStatus.OK:
            raise Unavailable(f"process {answer.number} does not tell of its models; ask again", retry_after_s=1)
        found += json.loads(answer.body)["models"]
    return JSON({"models": sorted(found, key=lambda model: str(model["model"]))})


def put_readiness(mine: Answer, others: Sequence[Answer]) -> Response:
    """Ready when all are; how many of all models do what."""
    counts: Counter[str] = Counter(json.loads(mine.body)["models"])
    for answer in others:
        if answer.status in {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}:
            counts.update(json.loads(answer.body)["models"])
    ready = all(answer.status == HTTPStatus.OK for answer in (mine, *others))
    return JSON({"status": "ready" if ready else "starting", "models": dict(counts)}, 200 if ready else 503)


def put_ready(mine: Answer, others: Sequence[Answer]) -> Response:
    """The same as the Open Inference Protocol has it."""
    late = [answer.number for answer in (mine, *others) if answer.status != HTTPStatus.OK]
    if late:
        raise Invalid(f"the server is starting: process {late[0]} is not ready")
    return JSON({"ready": True})


def put_metrics(mine: Answer, others: Sequence[Answer]) -> Response:
    """Each sample with a label that says whose it is."""
    heads: dict[str, list[bytes]] = {}
    samples: dict[str, list[bytes]] = {}
    answers = sorted((mine, *others))
    for answer in answers:
        family = ""
        for line in answer.body.splitlines() if answer.status == HTTPStatus.OK else ():
            if line.startswith(b"# ") and (about := line.split(b" ", 3))[1] in {b"HELP", b"TYPE", b"UNIT"}:
                family = about[2].decode()
                if line not in (kept := heads.setdefault(family, [])):
                    kept.append(line)
            elif line and not line.startswith(b"#"):
                samples.setdefault(family, []).append(_labelled(line, answer.number))
    heads[UP] = [b"# HELP %b 1 if the process answers." % UP.encode(), b"# TYPE %b gauge" % UP.encode()]
    samples[UP] = [
        b'%b{process="%d"} %d.0' % (UP.encode(), each.number, each.status == HTTPStatus.OK) for each in answers
    ]
    lines = [line for family, head in heads.items() for line in (*head, *samples.get(family, ()))]
    lines += [b"# EOF"] if mine.body.rstrip().endswith(b"# EOF") else []
    kind = dict(mine.headers)[b"content-type"].decode()
    return Response(b"\n".join(lines) + b"\n", media_type=None, headers={"Content-Type": kind})


def _labelled(line: bytes, number: int) -> bytes:
    found = SAMPLE.match(line)
    if found is None:
        return line
    label = b'{process="%d"' % number
    return found[1] + label + (b"," if found[2] else b"}") + line[found.end() :]


PUT_TOGETHER: Mapping[str, Callable[[Answer, Sequence[Answer]], Response]] = {
    ModelOperations.models.path: put_models,
    ModelOperations.overview.path: put_models,
    ServerOperations.metrics.path: put_metrics,
    "/readyz": put_readiness,
    "/v2/health/ready": put_ready,
}
