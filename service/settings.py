"""Settings of the server: environment variables HINGED_*, each with its unit and its default."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

DEFAULT_MODEL = '{"solver": "auto", "kernel": {"type": "rbf", "gamma": "scale"}}'


def _by_comma(value: object) -> object:
    """The parts of a text with commas; anything else as it is."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _or_none(value: object) -> object:
    """None for an empty text and for null; anything else as it is."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "null") else value


def _sendable(token: SecretStr) -> SecretStr:
    """A token without the white space around it; what is wrong with one is told without it."""
    text = token.get_secret_value().strip()
    if not (text and text.isascii() and text.isprintable()):
        raise PydanticCustomError("secret", "it must be one line of ASCII, without control characters")
    return SecretStr(text)


def _networks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses and networks, each as it is."""
    for name in names:
        ip_network(name)
    return names


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_by_comma)]


class Settings(BaseSettings):
    """One field a setting; docs/reference/settings.md lists them all."""

    model_config = SettingsConfigDict(env_prefix="HINGED_", frozen=True)

    # What everybody sets first
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="TCP port; 0 takes a free one")
    data_dir: Path = Field(Path("data"), description="folder of the embedded store")
    keys_file: Path | None = Field(None, description="file of API keys; without one everyone may do everything")
    allowed_hosts: Names = Field(
        ("localhost", "127.0.0.1", "::1"),
        description="names that a request's Host may have, by comma; * is any",
    )

    # Who may reach the server
    open: bool = Field(False, description="listen for others than this machine although there are no keys")
    allowed_origins: Names = Field((), description="origins of pages that may write, by comma")
    proxies: Annotated[Names, AfterValidator(_networks)] = Field(
        (), description="addresses or networks of proxies that are believed when they say who asks, by comma"
    )

    # Where logs and snapshots are
    store: str = Field(
        "sqlite", repr=False, description="sqlite, the embedded store, or the URL of a Redis or a Redis Cluster"
    )
    durability: Literal["fsync", "relaxed"] = Field(
        "fsync", description="what Redis must have done with a write before it is acknowledged"
    )
    redis_namespace: str = Field(
        "hinged", pattern=r"^[A-Za-z0-9._-]{1,64}$", description="what the keys in Redis begin with"
    )
    redis_timeout_s: float = Field(5.0, gt=0, description="time that Redis gets to answer, seconds")
    snapshot_examples: int = Field(50_000, gt=0, description="examples or events between two snapshots")
    log_kept: Annotated[int | None, BeforeValidator(_or_none)] = Field(
        None, ge=0, description="events kept behind the older of the two snapshots; none: all"
    )

    # What a request may be
    body_bytes_max: int = Field(32 * 2**20, gt=0, description="longest body, bytes")
    batch_examples_max: int = Field(10_000, gt=0, description="examples in one request")
    request_s: float = Field(
        60.0, gt=0, le=86_400, description="time that a client may take to send a request, seconds"
    )
    queue_examples_max: int = Field(50_000, gt=0, description="examples waiting for one model; more is 429")
    streams_max: int = Field(1_000, gt=0, description="WebSockets and event streams open at a time")

    # What models may be
    default_model: str = Field(
        DEFAULT_MODEL, description="configuration of the model that the first POST /learn creates, as JSON"
    )
    models_max: int = Field(1_000, gt=0, description="models on one server")
    points_max: int = Field(100_000, gt=0, description="largest points_max of a model")
    dim_max: int = Field(2**20, gt=0, description="features of one example")
    classes_max: int = Field(256, gt=1, le=1024, description="classes of one model")
    answers_kept: int = Field(100_000, gt=0, description="first answers that a model keeps for retries, examples")
    cache_mb: int = Field(256, gt=0, description="kernel-row cache of one model, MiB")

    # More than one process
    processes: int = Field(
        1, ge=1, le=256, description="equal processes behind the port; a new store is divided among them"
    )
    followers: int = Field(
        0, ge=0, le=256, description="other processes that follow each model and answer predictions for it"
    )
    readers: int = Field(0, ge=0, le=256, description="former name: so many processes follow the models of one owner")
    workers: int = Field(0, ge=0, le=256, description="former name of `processes`, without followers")
    node: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@ ]+$",
        description="address under which servers on the same Redis reach this one; with it they share the store",
    )
    node_ttl_s: float = Field(
        3.0,
        ge=0.5,
        le=300,
        description="time without a sign of life after which others claim a server's models, seconds",
    )

    # What is logged, and the end
    log_format: Literal["text", "json"] = Field("text", description="lines for people, or JSON objects for programs")
    log_requests: bool = Field(False, description="log every request")
    shutdown_s: float = Field(20.0, gt=0, description="time to drain at SIGTERM, seconds")

    # Label Studio
    labelstudio_url: str | None = Field(
        None,
        pattern=r"^https?://[^?#@ ]+$",
        description="address of a Label Studio, which is asked for annotations that webhooks have not brought",
    )
    labelstudio_token: Annotated[SecretStr, AfterValidator(_sendable)] | None = Field(
        None, description="of one of its users, who sees the models' projects"
    )

    @property
    def model_sizes(self) -> dict[str, int]:
        """What a model may take of memory beside its points, as Model and History are told it."""
        return {"cache_bytes": self.cache_mb * 2**20, "answers_kept": self.answers_kept}
