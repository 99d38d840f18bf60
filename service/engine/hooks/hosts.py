"""The URLs and addresses that a hook may call. HINGED_HOOKS_HOSTS lists them; everything else is refused."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import NamedTuple

from hinged.service import limits
from hinged.service.errors import Invalid
from hinged.service.settings import HOOKS_HOST, is_network

Address = IPv4Address | IPv6Address

URL = re.compile(r"(?P<origin>https?://[^/?]+)(?P<path>[/?][!-~]*)?")
"""Pattern of a URL: its origin, and a path with a query in printable ASCII."""
PORTS = {"http": 80, "https": 443}
GLOBAL = ip_network("2000::/3")
"""The IPv6 addresses that are assigned for the internet. All other addresses stay within a network, or stand for an
IPv4 address.
"""
TUNNELS = (ip_network("2002::/16"), ip_network("2001::/32"))
"""The IPv6 addresses of 6to4 and Teredo. Each contains an IPv4 address, which may be private."""


class CalledHost(NamedTuple):
    """A host that may be called, and how."""

    scheme: str
    name: str
    port: int

    @property
    def address(self) -> Address | None:
        """Return the address if the host is an address instead of a name."""
        try:
            return ipaddress.ip_address(self.name)
        except ValueError:
            return None

    @property
    def shown(self) -> str:
        """Return the host as part of a URL, without the port if the scheme implies it."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == PORTS[self.scheme] else f"{name}:{self.port}"


class Target(NamedTuple):
    """The host and the path of a hook's URL."""

    host: CalledHost
    path: str


class Hosts:
    """The hosts that hooks may call. listed: the parts of HINGED_HOOKS_HOSTS."""

    def __init__(self, listed: Sequence[str]) -> None:
        self._hosts = {_host(name) for name in listed if not is_network(name)}
        self._networks = [ip_network(name) for name in listed if is_network(name)]

    def target(self, url: str) -> Target:
        """Return the host and the path of a URL. Raise Invalid if it is no URL, or its host is not listed."""
        found = URL.fullmatch(url) if len(url) <= limits.URL_CHARS_MAX else None
        if found is None or "#" in url or HOOKS_HOST.fullmatch(found["origin"]) is None:
            raise Invalid(
                f"url: a URL of at most {limits.URL_CHARS_MAX} printable ASCII characters is needed, such as "
                "https://hooks.example.com/path, without user, password and fragment"
            )
        host, path = _host(found["origin"]), found["path"] or "/"
        if host not in self._hosts:
            raise Invalid(f"url: HINGED_HOOKS_HOSTS does not list {host.scheme}://{host.shown}")
        return Target(host, path if path.startswith("/") else f"/{path}")

    def check(self, host: CalledHost, address: Address) -> None:
        """Raise Invalid if a listed host may not be called at this address.

        A host that is an address is called there. A name must have global addresses, or addresses in a listed network.
        """
        if host.address is not None or _is_global(address):
            return
        if not any(address in network for network in self._networks):
            raise Invalid(
                f"url: {host.name} has the address {address}, which is not global; HINGED_HOOKS_HOSTS can list its "
                "network, such as 10.0.0.0/8"
            )


def _host(text: str) -> CalledHost:
    """Return a host as HINGED_HOOKS_HOSTS and URLs write it. The setting has checked the form."""
    scheme, _, rest = text.lower().rpartition("://")
    found = HOOKS_HOST.fullmatch(rest)
    assert found is not None, text  # noqa: S101
    scheme, name = scheme or "https", found["name"].strip("[]")
    host = CalledHost(scheme, name, int(found["port"] or PORTS[scheme]))
    return host if host.address is None else host._replace(name=str(host.address))


def _is_global(address: Address) -> bool:
    """Return whether an address belongs to the internet."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return _is_global(address.ipv4_mapped)
        if address not in GLOBAL or any(address in tunnel for tunnel in TUNNELS):
            return False
    return address.is_global and not address.is_multicast
