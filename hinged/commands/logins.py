"""How `hinged consume` logs in to a broker: user, password, SASL and certificates, as the URL of the broker names them.

SCHEME://USER:$PASSWORD@HOST:PORT/TOPIC?ca=FILE&cert=FILE&key=FILE&password-file=FILE&sasl=MECHANISM
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from hinged.extras import needed

if TYPE_CHECKING:
    from faststream.security import BaseSecurity

VARIABLE = re.compile(r"\$(?:(?P<name>\w+)|\{(?P<braced>\w+)\})")
"""Pattern of an environment variable in a URL."""
PARAMETERS = frozenset({"ca", "cert", "key", "password-file", "sasl"})
"""Parameters of a URL that this module reads. All other parameters belong to the library of the broker."""
SASL = ("plain", "scram-sha-256", "scram-sha-512")
"""Mechanisms by which a client may log in to Kafka."""
TLS = frozenset({"kafkas", "tls", "rediss", "amqps", "mqtts"})
"""Schemes of connections with TLS."""


class Login(NamedTuple):
    """The user of a broker, and the certificates of the connection.

    Attributes
    ----------
    user : name of the user, "" if the URL has no user.
    password : password of the user, None if the URL has no password.
    sasl : mechanism of SASL, one of `SASL`.
    tls : the certificates of a connection with TLS, otherwise None.
    """

    user: str
    password: str | None
    sasl: str
    tls: ssl.SSLContext | None

    def security(self) -> BaseSecurity:
        """Return the login as FastStream takes it."""
        with needed("consume", "hinged consume"):
            from faststream import security  # noqa: PLC0415

        if not self.user and self.password is None:
            return security.BaseSecurity(self.tls)
        kinds = (security.SASLPlaintext, security.SASLScram256, security.SASLScram512)
        kind: Callable[..., BaseSecurity] = kinds[SASL.index(self.sasl)]
        return kind(self.user, self.password or "", self.tls)


def located(url: str) -> tuple[SplitResult, Login]:
    """Return the parts of a URL without its login, and the login. Raise ValueError or OSError if the login is invalid.

    Variables as in $PASSWORD come from the environment.
    """
    parts = urlsplit(url if "://" in url else _expanded(url))
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    own = {name: _expanded(value) for name, value in parameters.items() if name in PARAMETERS}
    rest = {name: _expanded(value) for name, value in parameters.items() if name not in PARAMETERS}
    before, _, hosts = parts.netloc.rpartition("@")
    user, _, password = before.partition(":")
    # A URL that is itself a variable is no argument that other users can see.
    if password and VARIABLE.fullmatch(password) is None and "://" in url:
        raise ValueError(
            f"the URL of {hosts} contains a password, which other users of this machine can see: write $NAME for an "
            "environment variable, or add ?password-file=FILE"
        )
    without = parts._replace(netloc=_expanded(hosts), path=_expanded(parts.path), query=urlencode(rest))
    secret = _expanded(unquote(password)) if ":" in before else None
    if "password-file" in own:
        secret = Path(own["password-file"]).read_text().rstrip("\r\n")
    sasl = own.get("sasl", SASL[0]).lower()
    if sasl not in SASL or ("sasl" in own and not parts.scheme.startswith("kafka")):
        raise ValueError(f"expected sasl={', '.join(SASL)} in a URL of Kafka, got sasl={sasl} for {parts.scheme}")
    return without, Login(_expanded(unquote(user)), secret, sasl, _tls(parts.scheme, own))


def shown(url: str) -> str:
    """Return a URL without user and password, for messages."""
    return re.sub(r"//[^/]*@", "//", url)


def _tls(scheme: str, own: Mapping[str, str]) -> ssl.SSLContext | None:
    files = {name: own[name] for name in ("ca", "cert", "key") if name in own}
    if scheme not in TLS:
        if files:
            raise ValueError(f"{', '.join(files)}: {scheme}:// has no TLS; one of {', '.join(sorted(TLS))} is needed")
        return None
    if "key" in files and "cert" not in files:
        raise ValueError("key=FILE needs cert=FILE")
    context = ssl.create_default_context(cafile=files.get("ca"))
    if "cert" in files:
        context.load_cert_chain(files["cert"], files.get("key"))
    return context


def _expanded(text: str) -> str:
    """Replace the variables of a text. Raise ValueError if the environment lacks one."""

    def value(found: re.Match[str]) -> str:
        name = found["name"] or found["braced"]
        if name not in os.environ:
            raise ValueError(f"the environment has no variable {name}")
        return os.environ[name]

    return VARIABLE.sub(value, text)
