"""Requests about the whole server. Each process answers for itself, and one process combines the answers.

The route determines how the answers are combined (service/api/whole.py). The processes ask each other over Unix
sockets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import httpcore
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hinged.service.api import ROUTES
from hinged.service.api.whole import ProcessAnswer
from hinged.service.edge.middleware import error_response
from hinged.service.errors import ServiceError
from hinged.service.peers.paths import target_of

log = logging.getLogger(__name__)

ASK_S = 10.0
"""Seconds that another process may take to answer."""
PATIENCE = dict.fromkeys(("connect", "read", "write", "pool"), ASK_S)
SAID = (b"authorization", b"accept", b"host")
"""Headers of the request that are also sent to the other processes."""
FOR_ITSELF = b"hinged-for-itself"
"""Header of a request that asks a process for its own answer only."""
NO_ANSWER = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


class Together:
    """ASGI middleware in front of Front."""

    def __init__(self, front: ASGIApp, app: ASGIApp, number: int, others: Mapping[int, Path]) -> None:
        """Take the applications and the sockets.

        front: gets all other requests. app: answers for this process only. `others`: sockets of the other processes,
        by number.
        """
        self._front = front
        self._app = app
        self._number = number
        self._pools = {other: httpcore.AsyncConnectionPool(uds=str(path)) for other, path in others.items()}

    async def close(self) -> None:
        """Close the connections to the other processes."""
        for pool in self._pools.values():
            await pool.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for all processes if the request is about the whole server."""
        found = ROUTES.of_all.get(scope["path"].rstrip("/")) if scope["type"] == "http" else None
        if found is None or scope["method"] != "GET" or any(name == FOR_ITSELF for name, _ in scope["headers"]):
            await self._front(scope, receive, send)
            return
        operation, put_together = found
        mine = await self._own(scope, receive)
        response = Response(mine.body, mine.status)
        response.raw_headers = list(mine.headers)
        if mine.status == HTTPStatus.OK or operation.probe:  # a refusal is final, whatever the other processes answer
            others = await asyncio.gather(*(self._ask(number, scope) for number in self._pools))
            try:
                response = put_together(mine, others) or response
            except ServiceError as error:
                response = error_response(error, scope["path"])
        await response(scope, receive, send)

    async def _own(self, scope: Scope, receive: Receive) -> ProcessAnswer:
        status, headers, parts = 0, [], []

        async def keep(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], message["headers"]
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, keep)
        return ProcessAnswer(self._number, status, b"".join(parts), headers)

    async def _ask(self, number: int, scope: Scope) -> ProcessAnswer:
        headers = [(name, value) for name, value in scope["headers"] if name in SAID] + [(FOR_ITSELF, b"")]
        url = httpcore.URL(scheme=b"http", host=b"localhost", port=None, target=target_of(scope))
        try:
            answer = await self._pools[number].request("GET", url, headers=headers, extensions={"timeout": PATIENCE})
        except NO_ANSWER as error:
            log.warning("process %d does not answer: %s", number, error)
            return ProcessAnswer(number, 0)
        return ProcessAnswer(number, answer.status, answer.content)
