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
    """One field a setting; docs/settings.md lists them all."""

    model_config = SettingsConfigDict(env_prefix="HINGED_", frozen=True)

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="TCP port; 0 takes a free one")
    data_dir: Path = Field(Path("data"), description="folder of the embedded store")
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
    default_model: str = Field(
        DEFAULT_MODEL, description="configuration of the model that the first POST /learn creates, as JSON"
    )
    allowed_hosts: Names = Field(
        ("localhost", "127.0.0.1", "::1"),
        description="names that a request's Host may have, by comma; * is any",
    )
    allowed_origins: Names = Field((), description="origins of pages that may write, by comma")
    proxies: Annotated[Names, AfterValidator(_networks)] = Field(
        (), description="addresses or networks of proxies that are believed when they say who asks, by comma"
    )
    keys_file: Path | None = Field(None, description="file of API keys; without one everyone may do everything")
    open: bool = Field(False, description="listen for others than this machine although there are no keys")
    ticket_s: float = Field(30.0, gt=0, le=3600, description="life of a ticket for one stream, seconds")
    tickets_max: int = Field(10_000, gt=0, description="unused tickets of all clients")
    body_bytes_max: int = Field(32 * 2**20, gt=0, description="longest body, bytes")
    request_s: float = Field(
        60.0, gt=0, le=86_400, description="time that a client may take to send a request, seconds"
    )
    batch_examples_max: int = Field(10_000, gt=0, description="examples in one request")
    micro_batch_examples_max: int = Field(4_096, gt=0, description="examples that one append and one call take")
    queue_examples_max: int = Field(50_000, gt=0, description="examples waiting for one model; more is 429")
    models_max: int = Field(1_000, gt=0, description="models on one server")
    dim_max: int = Field(2**20, gt=0, description="features of one example")
    classes_max: int = Field(256, gt=1, le=1024, description="classes of one model")
    label_chars_max: int = Field(256, gt=0, description="length of a label")
    id_chars_max: int = Field(256, gt=0, description="length of an example's id")
    answers_kept: int = Field(100_000, gt=0, description="first answers that a model keeps for retries, examples")
    points_max: int = Field(100_000, gt=0, description="largest points_max of a model")
    pending_flush_s: float = Field(
        1.0, gt=0, description="interval at which predictions that wait for labels are written, seconds"
    )
    queries_max: int = Field(1_000, gt=0, description="questions in one request for labels")
    streams_max: int = Field(1_000, gt=0, description="WebSockets and event streams open at a time")
    frame_bytes_max: int = Field(2**20, gt=0, description="longest frame of a WebSocket, bytes")
    frames_in_flight_max: int = Field(256, gt=0, description="frames of one WebSocket that are not yet answered")
    stream_idle_s: float = Field(300.0, gt=0, description="time without a frame that a WebSocket may have, seconds")
    heartbeat_s: float = Field(15.0, gt=0, description="interval of pings and heartbeats on streams, seconds")
    events_kept: int = Field(1_000, gt=0, description="newest events of a followed model that are kept in memory")
    cache_mb: int = Field(256, gt=0, description="kernel-row cache of one model, MiB")
    snapshot_examples: int = Field(50_000, gt=0, description="examples or events between two snapshots")
    snapshot_s: float = Field(3600.0, gt=0, description="time until a change is in a snapshot, seconds")
    log_kept: Annotated[int | None, BeforeValidator(_or_none)] = Field(
        None, ge=0, description="events kept behind the older of the two snapshots; none: all"
    )
    import_bytes_max: int = Field(500_000_000, gt=0, description="longest file that is imported as a model, bytes")
    log_format: Literal["text", "json"] = Field("text", description="lines for people, or JSON objects for programs")
    log_requests: bool = Field(False, description="log every request")
    readers: int = Field(0, ge=0, le=256, description="processes beside the server that answer predictions")
    reader_lag_s: float = Field(
        1.0, ge=0, description="time for which a reader may be behind a model before the server answers, seconds"
    )
    workers: int = Field(0, ge=0, le=256, description="processes that the models are divided among; 0: one does all")
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
    labelstudio_url: str | None = Field(
        None,
        pattern=r"^https?://[^?#@ ]+$",
        description="address of a Label Studio, which is asked for annotations that webhooks have not brought",
    )
    labelstudio_token: Annotated[SecretStr, AfterValidator(_sendable)] | None = Field(
        None, description="of one of its users, who sees the models' projects"
    )
    shutdown_s: float = Field(20.0, gt=0, description="time to drain at SIGTERM, seconds")

    @property
    def model_sizes(self) -> dict[str, int]:
        """What a model may take of memory beside its points, as Model and History are told it."""
        return {"cache_bytes": self.cache_mb * 2**20, "answers_kept": self.answers_kept}
