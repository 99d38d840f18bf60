"""Call the URL of a hook: check its host and address, then send the message."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import importlib
import json
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from hinged.service import limits
from hinged.service.data.times import shown_time
from hinged.service.engine.hooks.hosts import Address, CalledHost, Hosts
from hinged.service.errors import Conflict, Invalid
from hinged.service.model.curves import CurveMark
from hinged.service.model.hooks import Hook
from hinged.service.settings import Settings

if TYPE_CHECKING:
    from types import ModuleType

ADDRESSES_MAX = 4
"""Maximum number of addresses of a name to which a call tries to connect. More would leave too little time for each."""


class Calls:
    """Calls the URLs of hooks, as the settings allow."""

    def __init__(self, settings: Settings) -> None:
        self._secret = settings.hooks_secret
        self._hosts = Hosts(settings.hooks_hosts)

    @property
    def enabled(self) -> bool:
        """Return whether the settings allow any call."""
        return self._secret is not None

    def check_enabled(self) -> None:
        """Raise Conflict without HINGED_HOOKS_SECRET."""
        if self._secret is None:
            raise Conflict("hooks are not configured: start the server with HINGED_HOOKS_SECRET and HINGED_HOOKS_HOSTS")

    def secret(self, hook: str) -> str:
        """Return the secret with which the messages of a hook are signed."""
        assert self._secret is not None  # noqa: S101  callers check `enabled`
        own = self._secret.get_secret_value().encode()
        return f"whsec_{base64.b64encode(hmac.digest(own, f'hook {hook}'.encode(), hashlib.sha256)).decode()}"

    async def check(self, url: str) -> None:
        """Raise Invalid if the settings do not allow this URL, or if its name has no allowed address."""
        host = self._hosts.target(url).host
        try:
            async with asyncio.timeout(limits.HOOK_CALL_S):
                await self._checked_addresses(host)
        except (OSError, TimeoutError):
            raise Invalid(f"url: {host.name} has no address") from None

    async def send(self, model: str, hook: Hook, mark: CurveMark) -> str | None:
        """Send the message of a mark. Return None if the receiver has accepted it, otherwise the reason."""
        posting = await asyncio.to_thread(_posting)
        body = message(model, mark)
        headers = posting.signed(self.secret(hook.id), message_id(model, hook.id, mark), body)
        try:
            async with asyncio.timeout(limits.HOOK_CALL_S):
                target = self._hosts.target(hook.url)
                addresses = await self._checked_addresses(target.host)
                status = await posting.post(target, addresses, headers, body.encode(), limits.HOOK_CALL_S)
        except Invalid as error:
            return error.message
        except TimeoutError:
            return f"the receiver has not answered within {limits.HOOK_CALL_S:g} s"
        except posting.NO_ANSWER as error:
            return f"the receiver does not answer: {posting.reason_of(error)}"
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return None
        return f"the receiver answered {status}"

    async def _checked_addresses(self, host: CalledHost) -> list[Address]:
        """Return the addresses to which a call may connect. Raise Invalid if any address of the host is refused."""
        addresses = [host.address] if host.address is not None else await look_up(host)
        for address in addresses:
            self._hosts.check(host, address)
        return addresses[:ADDRESSES_MAX]


def message_id(model: str, hook: str, mark: CurveMark) -> str:
    """Return the webhook-id of a message. Each call with the message has the same id."""
    facts = json.dumps([model, hook, *mark])
    return f"msg_{hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()}"


def message(model: str, mark: CurveMark) -> str:
    """Return the body of a message."""
    at = shown_time(mark.at_ms)
    data = {"model": model, "kind": mark.kind, "position": mark.position, "examples": mark.examples, "at": at}
    return json.dumps({"type": f"hinged.{mark.kind}", "timestamp": at, "data": data})


async def look_up(host: CalledHost) -> list[Address]:
    """Return the addresses of a name. Raise OSError if it has none.

    The look-up has a thread of its own, because a resolver that hangs must not delay other calls.
    """
    found: Future[Sequence[Any]] = Future()
    found.set_running_or_notify_cancel()  # the call may be given up, the look-up cannot

    def ask() -> None:
        try:
            found.set_result(socket.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM))
        except UnicodeError:
            found.set_exception(OSError("the name cannot be looked up"))
        except OSError as error:
            found.set_exception(error)

    threading.Thread(target=ask, name="look-up for a hook", daemon=True).start()
    return list(dict.fromkeys(ip_address(row[4][0]) for row in await asyncio.wrap_future(found)))


def _posting() -> ModuleType:
    """Import what a call needs, on a thread."""
    posting = importlib.import_module("hinged.service.engine.hooks.posting")
    posting.certificates()
    return posting
