"""Settings of the server: environment variables HINGED_*, each with its unit and its default."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


def _by_comma(value: object) -> object:
    """Split a text at its commas, and return the parts. Return anything else unchanged."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _or_none(value: object) -> object:
    """Return None for an empty text and for null. Return anything else unchanged."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "null") else value


def _sendable(token: SecretStr) -> SecretStr:
    """Return a token without surrounding white space. An error does not quote the token."""
    text = token.get_secret_value().strip()
    if not (text and text.isascii() and text.isprintable()):
        raise PydanticCustomError("secret", "it must be one line of ASCII, without control characters")
    return SecretStr(text)


def _networks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the addresses and networks unchanged. Raise ValueError if a name is neither an address nor a network."""
    for name in names:
        ip_network(name)
    return names


def is_network(name: str) -> bool:
    """Return whether a part of HINGED_HOOKS_HOSTS is a network, such as 10.0.0.0/8, instead of a host."""
    return "/" in name.rpartition("://")[2]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name, which another machine may resolve to another address
        return host.lower() == "localhost"


def _callable(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts and networks unchanged. Raise ValueError for anything else."""
    for name in names:
        if is_network(name):
            ip_network(name)
        elif (found := HOOKS_HOST.fullmatch(name)) is None or int(found["port"] or 0) > 65535:
            raise ValueError(f"a host such as hooks.example.com or http://10.0.0.7:8080 is allowed, got {name!r}")
    return names


def _long(secret: SecretStr) -> SecretStr:
    """Return a secret that nobody can guess. An error does not quote the secret."""
    if len(secret.get_secret_value()) < SECRET_CHARS_MIN:
        raise PydanticCustomError("secret", f"it must have at least {SECRET_CHARS_MIN} characters")
    return secret


HOOKS_HOST = re.compile(
    r"(https?://)?(?P<name>\[[0-9a-f]{0,4}:[0-9a-f:.]{1,40}\]"  # an IPv6 address
    r"|(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}"  # an IPv4 address
    r"|([a-z0-9_-]+\.)*[a-z_-][a-z0-9_-]*)"  # a name; its last label begins with no digit, so it is no number
    r"(:(?P<port>[1-9]\d{0,4}))?",
    re.IGNORECASE | re.ASCII,
)
"""A host that hooks may call. `127.1`, `2130706433` and `0x7f000001`, which systems read as addresses, do not match."""
SECRET_CHARS_MIN = 32
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_by_comma)]


class Settings(BaseSettings):
    """The server's settings, one field per setting. docs/reference/settings.md lists all of them."""

    model_config = SettingsConfigDict(env_prefix="HINGED_", frozen=True)

    # The most used settings
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="TCP port; 0 takes a free one")
    data_dir: Path = Field(Path("data"), description="folder of the embedded store")
    keys_file: Path | None = Field(None, description="file of API keys; without it everyone may do everything")
    allowed_hosts: Names = Field(
        ("localhost", "127.0.0.1", "::1"),
        description="names that a request's Host may have, separated by commas; * is any",
    )

    # Access
    open: bool = Field(False, description="accept other machines although there are no keys")
    key_rate: Annotated[float | None, BeforeValidator(_or_none)] = Field(
        None, ge=1, allow_inf_nan=False, description="requests a second of one key; empty: no limit"
    )
    allowed_origins: Names = Field((), description="origins of pages that may write, separated by commas")
    proxies: Annotated[Names, AfterValidator(_networks)] = Field(
        (), description="proxies trusted to name the client: addresses or networks, separated by commas"
    )

    # Where logs and snapshots are
    store: str = Field(
        "sqlite", repr=False, description="sqlite, the embedded store, or the URL of a Redis or a Redis Cluster"
    )
    durability: Literal["fsync", "relaxed"] = Field(
        "fsync", description="what Redis must have done with a write before the server acknowledges it"
    )
    redis_namespace: str = Field("hinged", pattern=r"^[A-Za-z0-9._-]{1,64}$", description="prefix of the keys in Redis")
    redis_timeout_s: float = Field(5.0, gt=0, description="seconds that Redis may take to answer")
    snapshot_examples: int = Field(50_000, gt=0, description="examples or events between two snapshots")
    receipt_key: Annotated[Path | None, BeforeValidator(_or_none)] = Field(
        None, description="PEM file of the Ed25519 key that signs heads of receipts; without it they are unsigned"
    )
    log_kept: Annotated[int | None, BeforeValidator(_or_none)] = Field(
        None, ge=0, description="events kept before the older of the two snapshots; empty: all events"
    )

    # Requests
    body_bytes_max: int = Field(32 * 2**20, gt=0, description="longest body, bytes")
    reader_bytes_max: Annotated[int | None, BeforeValidator(_or_none)] = Field(
        None, ge=2**20, description="longest body of readers and annotators, bytes; empty: body_bytes_max"
    )
    batch_examples_max: int = Field(10_000, gt=0, description="examples in one request")
    request_s: float = Field(60.0, gt=0, le=86_400, description="seconds that a client may take to send a request")
    queue_examples_max: int = Field(
        50_000, gt=0, description="examples waiting for one model; further examples get a 429"
    )
    streams_max: int = Field(1_000, gt=0, description="WebSockets and event streams open at once")

    # Models
    default_model: str = Field("{}", description="configuration of a model that the first examples create, as JSON")
    create: Annotated[bool | None, BeforeValidator(_or_none)] = Field(
        None,
        description="let POST learn create a model that does not exist, as admins may; empty: if the server is local",
    )
    models_max: int = Field(1_000, gt=0, description="models on one server")
    points_max: int = Field(100_000, gt=0, description="largest points_max of a model")
    dim_max: int = Field(2**20, gt=0, description="features of one example")
    classes_max: int = Field(256, gt=1, le=1024, description="classes of one model")
    answers_kept: int = Field(100_000, gt=0, description="examples whose first answers a model keeps for retries")
    embeddings: Path | None = Field(None, description="folder of embeddings of texts, each a folder of files")
    cache_mb: int = Field(256, gt=0, description="kernel-row cache of one model, MiB")

    # More than one process
    processes: int = Field(
        1, ge=1, le=256, description="equal processes behind the port; a new store is divided among them"
    )
    followers: int = Field(
        0, ge=0, le=256, description="further processes that follow each model and answer predictions for it"
    )
    node: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@ ]+$",
        description="address at which servers on the same Redis reach this server; with it they share the store",
    )
    node_ttl_s: float = Field(
        3.0,
        ge=0.5,
        le=300,
        description="seconds without a sign of life after which other servers claim a server's models",
    )

    # Logging and shutdown
    log_format: Literal["text", "json"] = Field("text", description="lines for people, or JSON objects for programs")
    log_requests: bool = Field(False, description="log every request")
    shutdown_s: float = Field(20.0, gt=0, description="seconds to drain at SIGTERM")

    # Label Studio
    labelstudio_url: str | None = Field(
        None,
        pattern=r"^https?://[^?#@ ]+$",
        description="address of a Label Studio, which the server asks for annotations that no webhook has brought",
    )
    labelstudio_token: Annotated[SecretStr, AfterValidator(_sendable)] | None = Field(
        None, description="token of a Label Studio user who sees the models' projects"
    )

    # Hooks
    hooks_hosts: Annotated[Names, AfterValidator(_callable)] = Field(
        (), description="hosts that hooks may call, and networks in which their names may be, separated by commas"
    )
    hooks_secret: Annotated[SecretStr, AfterValidator(_long)] | None = Field(
        None, description="secret from which the server derives the secret of each hook"
    )

    @property
    def creates(self) -> bool:
        """Return whether `POST /models/{model}/learn` creates a model that does not exist.

        By default a local server does: it has no keys, only this machine reaches it, and it shares its store with no
        other server. On any other server a wrong name is more likely than a new model.
        """
        local = self.keys_file is None and self.node is None and is_loopback(self.host)
        return local if self.create is None else self.create

    @property
    def model_sizes(self) -> dict[str, int]:
        """Return the limits on the memory that a model may take apart from its points. The limits are arguments of
        Model and History.
        """
        return {"cache_bytes": self.cache_mb * 2**20, "answers_kept": self.answers_kept}
