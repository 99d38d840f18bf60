"""Sign a message, and post it to an address that was checked.

This module imports httpcore, which takes a moment, so it is imported only when a server makes its first call.
httpcore follows no redirect and reads no proxy from the environment.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache

import httpcore
from standardwebhooks.webhooks import Webhook

from hinged.service.engine.hooks.hosts import Address, Target
from hinged.version import __version__

NO_ANSWER = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError)
"""The errors that httpcore may raise if a receiver does not answer. An error of TLS is an OSError, too."""


@cache
def certificates() -> ssl.SSLContext:
    """Return the certificates that the system trusts. Reading them takes 20 ms."""
    return ssl.create_default_context()


class CheckedAddresses(httpcore.AsyncNetworkBackend):
    """Connects to the first of these addresses that accepts the connection, and looks up no name."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002  the name was looked up and its addresses were checked
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to one of the addresses."""
        failure: Exception = httpcore.ConnectError("there is no address")
        for address in self._addresses:
            try:
                return await self._backend.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


def signed(secret: str, message_id: str, body: str) -> dict[str, str]:
    """Return the headers of a message as Standard Webhooks defines them. Each call has its own time."""
    now = datetime.now(UTC)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, now, body),
    }


def reason_of(error: Exception) -> str:
    """Return why a receiver has not answered. The reason quotes nothing that the receiver has sent."""
    return str(error) if isinstance(error, httpcore.ConnectError) and str(error) else type(error).__name__


async def post(
    target: Target, addresses: Sequence[Address], headers: Mapping[str, str], body: bytes, connect_s: float
) -> int:
    """Post a body to one of these addresses. Return the status of the answer; the rest of the answer is not read."""
    scheme, name, port = target.host
    sent = {"host": target.host.shown, "content-type": "application/json", "user-agent": f"hinged/{__version__}"}
    url = httpcore.URL(scheme=scheme.encode(), host=name.encode(), port=port, target=target.path.encode())
    async with (
        httpcore.AsyncConnectionPool(
            ssl_context=certificates() if scheme == "https" else None, network_backend=CheckedAddresses(addresses)
        ) as pool,
        pool.stream(
            "POST",
            url,
            headers=[*sent.items(), *headers.items()],
            content=body,
            extensions={"timeout": {"connect": connect_s / len(addresses)}},
        ) as answer,
    ):
        return int(answer.status)
