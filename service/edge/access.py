"""Access control. Every operation names the minimum role that may use it, and only this module decides.

A client sends a key as `Authorization: Bearer KEY`. For a single GET or WebSocket it may send `?ticket=` instead, with
a ticket from POST /tickets, because a browser's EventSource and WebSocket cannot send headers. A key never appears in a
URL. Routes for other servers also accept a key as the password of `Authorization: Basic`, because their settings offer
no other form.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from secrets import token_bytes
from typing import Any

from starlette.requests import HTTPConnection

from hinged.answers import Role
from hinged.operations.base import EVERY, Operation
from hinged.service import limits
from hinged.service.data.times import shown_time
from hinged.service.edge.keys import NOBODY_ASKED, Key, Keyring
from hinged.service.edge.rates import Rates
from hinged.service.edge.tickets import Tickets
from hinged.service.errors import Forbidden, Invalid, ServiceError, Unauthenticated
from hinged.service.settings import Settings, is_loopback

log = logging.getLogger(__name__)

Headers = Sequence[tuple[bytes, bytes]]
"""The headers of an ASGI scope. Their names are in lower case."""

FIRST_KEY = "Make one: hinged keys create me --role admin --file keys.json, and set HINGED_KEYS_FILE=keys.json"


class Access:
    """The keys and tickets of a server. Without keys, everyone may do everything."""

    def __init__(self, settings: Settings) -> None:
        """Read the key file. Raise Invalid if it cannot be read, or if there is a limit of keys without keys."""
        for name in ("key_rate", "reader_bytes_max"):
            if settings.keys_file is None and getattr(settings, name) is not None:
                raise Invalid(f"HINGED_{name.upper()}={getattr(settings, name)} needs keys: set HINGED_KEYS_FILE, too")
        self.keyring = None if settings.keys_file is None else Keyring(settings.keys_file)
        self.rates = Rates(settings.key_rate)
        self.share_tickets(token_bytes())

    def share_tickets(self, secret: bytes) -> None:
        """From now on, accept the tickets of all processes that know this secret."""
        self._tickets = Tickets(secret, limits.TICKET_S, limits.TICKETS_MAX, self._known)

    def caller(self, connection: HTTPConnection, *, basic: bool = False) -> Key:
        """Return the key of a request. Raise Unauthenticated if the request has no known key."""
        given = _credentials(connection.scope["headers"])
        if not given and connection.scope["query_string"] and "ticket" in connection.query_params:
            return self._redeem(connection)
        key = self._find(given, basic=basic)
        if key is None:
            log.warning("a key that is not known, from %s", connection.client.host if connection.client else "?")
            raise Unauthenticated("this key is not known, or was revoked")
        return key

    def admitted(self, headers: Headers, operation: Operation[..., Any], model: str) -> Key | None:
        """Return the key in these headers if it may use an operation on a model now; otherwise None.

        After None, the caller must let `authorise` find the reason. After a key, it must count the request in `rates`.
        """
        if self.keyring is None:
            return NOBODY_ASKED
        try:
            key, role = self._find(_credentials(headers)), operation.role
            if key is not None and role is not None:
                check_role(key, role, model)
        except ServiceError:
            return None
        return None if key is None or self.rates.wait_s(key) else key

    def _find(self, given: Sequence[bytes], *, basic: bool = False) -> Key | None:
        """Return the key of these credentials, or None if it is unknown. Raise Unauthenticated if they are
        malformed.
        """
        if self.keyring is None:
            return NOBODY_ASKED
        if len(given) != 1:
            raise Unauthenticated("send a key as one header `Authorization: Bearer KEY`")
        scheme, _, text = given[0].decode("latin-1").partition(" ")
        text = text.strip()
        if basic and scheme.lower() == "basic":
            scheme, text = "bearer", password(text)
        if scheme.lower() != "bearer" or not text:
            raise Unauthenticated("the Authorization header must be `Bearer KEY`")
        return self.keyring.find(text)

    def issue_ticket(self, connection: HTTPConnection) -> dict[str, Any]:
        """Issue a ticket with the caller's rights; return it with its time of expiry."""
        expires_ms = 1000 * (time.time() + limits.TICKET_S)
        ticket = self._tickets.issue(caller(connection))
        return {"ticket": ticket, "expires_at": shown_time(expires_ms)}

    def knows(self, key: Key) -> bool:
        """Return whether a key that opened a stream is still valid. Raise Unavailable while the key file cannot be
        read.
        """
        return key in self._known()

    def _known(self) -> tuple[Key, ...]:
        return (NOBODY_ASKED,) if self.keyring is None else self.keyring.keys()

    def _redeem(self, connection: HTTPConnection) -> Key:
        if connection.scope["type"] == "http" and connection.scope["method"] != "GET":
            raise Unauthenticated("a ticket opens a GET or a WebSocket; send a key as `Authorization: Bearer KEY`")
        key = self._tickets.redeem(connection.query_params["ticket"])
        if key is None:
            raise Unauthenticated("this ticket is not known: a ticket is valid once, and for seconds")
        return key


def authorise(connection: HTTPConnection, operation: Operation[..., Any]) -> None:
    """Store the caller's key in the connection, and count the request. Raise Unauthenticated or Forbidden if the key
    may not use the operation, and QueueFull if it may not do so yet.
    """
    if operation.role is None:
        return
    access: Access = connection.app.state.access
    key = connection.state.caller = access.caller(connection, basic=operation.basic)
    check_role(key, operation.role, connection.scope["path_params"].get("model", operation.covers))
    access.rates.check(key)


def _credentials(headers: Headers) -> list[bytes]:
    return [value for name, value in headers if name == b"authorization"]


def password(text: str) -> str:
    """Return the password in Basic credentials, or "" if they are malformed."""
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[2].strip()
    except ValueError:
        return ""


def require(connection: HTTPConnection, role: Role, model: str | None = None) -> None:
    """Raise Forbidden unless the caller's key has this role and covers this model."""
    check_role(caller(connection), role, model)


def check_role(key: Key, role: Role, model: str | None = None) -> None:
    """Do the same as `require`, but for a key."""
    if model is not None and not key.covers(model):
        what = "all models" if model == EVERY else f"model {model[:64]!r}"
        raise Forbidden(f"this needs a key for {what}; yours is for {', '.join(key.models)}")
    if not key.plays(role):
        raise Forbidden(f"this needs a key with the role {role}; yours is {key.role}")


def check_examples(key: Key, examples: Iterable[Mapping[str, Any]]) -> None:
    """Raise Forbidden if an annotator sends an example with an x or a weight. Annotators may only label examples that
    the model knows.
    """
    if any("x" in example or "weight" in example for example in examples):
        check_role(key, "writer")


def check_name(connection: HTTPConnection, annotator: str) -> None:
    """Raise Forbidden if an annotator's key is used to answer under a name that is not the key's name."""
    if annotator != caller(connection).name:
        require(connection, "writer")


def visible(connection: HTTPConnection, summaries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the summaries of the models that the request's key covers."""
    return [summary for summary in summaries if caller(connection).covers(summary["model"])]


def caller(connection: HTTPConnection) -> Key:
    """Return the caller's key, which `authorise` has stored."""
    key: Key = connection.state.caller
    return key


def refuse_open_door(settings: Settings) -> None:
    """Raise Invalid if other machines could reach a server without keys, and the settings do not allow that."""
    if settings.keys_file is None and not settings.open and not is_loopback(settings.host):
        raise Invalid(
            f"other machines may reach {settings.host}, and there are no keys. {FIRST_KEY}; or set HINGED_OPEN=yes if "
            "everyone who reaches the port may do everything"
        )
