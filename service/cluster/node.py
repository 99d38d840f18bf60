"""A node: this server as a member of a cluster. The application starts and stops the node. The routes of /cluster
call its methods.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.requests import Request
from starlette.types import ASGIApp

from hinged.extras import needed
from hinged.service.cluster.gate import Gate
from hinged.service.cluster.members import HERE, Members
from hinged.service.cluster.passing import Passing
from hinged.service.errors import Invalid, Unavailable
from hinged.service.peers.alone import Alone, ServerParts
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

ASK_S = 2.0
"""Seconds that another server may take to report the memory and load of its models."""


OF_A_NODE = {
    "up": "1 if the server lives.",
    "beat_age_seconds": "Time since its last sign of life, when this server gave its own.",
    "models": "Models that it has loaded.",
    "loading": "Models that it has claimed and does not answer for yet.",
    "memory_bytes": "Memory of its models.",
    "memory_max_bytes": "Memory that it may take.",
    "load": "CPU seconds a second that its models take.",
    "processors": "Processors that it may use.",
}


def as_node(settings: Settings) -> Settings:
    """Return settings that let other servers send requests to this server. Raise Invalid for settings that contradict
    `node`.
    """
    if settings.node is None:
        return settings
    if settings.store == "sqlite":
        raise Invalid("HINGED_NODE: servers share a store on Redis, got HINGED_STORE=sqlite")
    name = urlsplit(settings.node).hostname or ""
    return settings.model_copy(update={"allowed_hosts": (*settings.allowed_hosts, name)})


def _key_of(request: Request) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in request.scope["headers"] if name == b"authorization"]


class Node(Alone):
    """A server of a cluster: its record of the members, its gate and its metrics."""

    def join(self, parts: ServerParts) -> ASGIApp:
        """Build the members and the gate of a server. Return the gate, which gets the server's requests."""
        with needed("redis", "a server among several"):
            from hinged.service.store.redis.shared import SharedRedisStore  # noqa: PLC0415

        store = parts.store
        assert isinstance(store, SharedRedisStore)  # noqa: S101  store/choice.py
        parts.access.share_tickets(store.secret())
        store.on_lost = self.lose
        self.members = Members(store, parts.registry, parts.settings)
        self._passing = Passing(self.members, parts.streams, parts.settings.request_s)
        self.gate = Gate(parts.edge, self.members, self._passing, parts.access)
        self._loop = asyncio.get_running_loop()
        return self.gate

    def here(self, name: str) -> bool:
        """Return whether this server certainly owns a model."""
        return self.members.known(name) == HERE

    async def start(self) -> None:
        """Begin to send heartbeats and to claim models."""
        self.members.start()
        await super().start()

    def lose(self, name: str) -> None:
        """Give up a model that another server has claimed. From any thread."""
        self._loop.call_soon_threadsafe(self.members.lose, name)

    def drain(self) -> None:
        """Claim no more models, because the server is about to stop."""
        self.members.claim_no_more()
        super().drain()

    async def stop(self) -> None:
        """Stop the heartbeats, and close the connections to other servers."""
        await self.members.stop()
        self._passing.lines.close()
        await super().stop()

    # -- for the routes -------------------------------------------------------------------------------------------

    async def claims(self) -> None:
        """Wait until this server has claimed and loaded the models that it gets at its start."""
        await self.members.settled()
        await super().claims()

    async def overview(self, request: Request) -> dict[str, Any]:
        """Return the servers and the models. Ask the other servers for the state of their models."""
        key = _key_of(request)

        async def others(address: str) -> list[dict[str, Any]]:
            try:
                status, body = await self._passing.ask(address, "/cluster/node", key, method="GET", read_s=ASK_S)
            except Unavailable as error:
                log.warning("no figures: %s", error.message)
                return []
            found: list[dict[str, Any]] = json.loads(body)["models"] if status == 200 else []
            return found

        return await self.members.overview(others)

    def figures(self) -> dict[str, Any]:
        """Return the memory and load of this server, and the state of its models."""
        return {"node": self.members.address, "models": self.members.figures.of_models()}

    async def move(self, model: str, to: str, request: Request) -> dict[str, Any]:
        """Move a model to the server at `to`. Return the model's owner after the move."""
        to = to.rstrip("/")
        key = _key_of(request)

        async def hand() -> dict[str, Any]:
            status, body = await self._passing.ask(to, f"/cluster/models/{model}/claim", key)
            if status != 200:
                raise Unavailable(f"model {model} was released to {to}, which has not taken it yet", retry_after_s=1)
            found: dict[str, Any] = json.loads(body)
            return found

        return await self.members.move(model, to, hand)

    async def claim(self, model: str) -> dict[str, Any]:
        """Claim a model that was released for this server."""
        return await self.members.take_over(model)

    # -- Prometheus -----------------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        members, claims = self.members, self.members.store.epochs()
        yield GaugeMetricFamily("hinged_cluster_nodes", "Servers alive, as this server knows.", len(members.living()))
        yield GaugeMetricFamily("hinged_cluster_models", "Models that this server has claimed.", len(claims))
        yield GaugeMetricFamily(
            "hinged_cluster_beat_age_seconds", "Time since this server's last sign of life.", members.beat_age_s()
        )
        epochs = GaugeMetricFamily("hinged_cluster_epoch", "Epoch of this server's claim of a model.", labels=["model"])
        for name, epoch in sorted(claims.items()):
            epochs.add_metric([name], float(epoch))
        yield epochs
        yield from self._of_nodes()
        yield CounterMetricFamily("hinged_cluster_claimed", "Models claimed since the start.", members.claimed)
        yield CounterMetricFamily("hinged_cluster_lost", "Models that another server claimed.", members.lost)
        yield CounterMetricFamily("hinged_cluster_moved", "Models moved to another server.", members.moved)
        yield CounterMetricFamily(
            "hinged_cluster_passed_on", "Requests passed on to a model's owner.", self.gate.passed_on
        )
        yield CounterMetricFamily(
            "hinged_cluster_redirected", "Requests redirected to the owner.", self.gate.redirected
        )
        yield from super().collect()

    def _of_nodes(self) -> Iterator[Metric]:
        """Yield the metrics of each server, as of its last heartbeat."""
        families = {
            name: GaugeMetricFamily(f"hinged_cluster_node_{name}", meaning, labels=["node"])
            for name, meaning in OF_A_NODE.items()
        }
        for node in self.members.nodes():
            figures = {**node, "up": node["alive"], "beat_age_seconds": node["beat_age_s"]}
            for name, family in families.items():
                if name in figures:
                    family.add_metric([node["node"]], float(figures[name]))
        yield from families.values()
