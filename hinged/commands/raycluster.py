"""`hinged cluster start` and `stop`: run servers and their controller as actors of Ray. Ray restarts them.

Each node of Ray has one detached actor, which runs the normal server as a child process. When the server ends, the
actor ends, and Ray starts both again. A further actor is the controller: it keeps a server running on every node and
moves models (service/cluster/controller.py). Ray does nothing else: Redis stores the owners, and clients send requests
directly to the servers.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hinged.client.client import Client, HingedError
from hinged.commands.balance import keep_balanced, open_board
from hinged.commands.options import positive
from hinged.commands.writing import write
from hinged.extras import needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

log = logging.getLogger(__name__)

NAMESPACE = "hinged"
CONTROLLER = "controller"
READY_S = 300.0
STOP_S = 40.0
"""Seconds to wait while a server drains. HINGED_SHUTDOWN_S is 20 s by default."""
OWN = (
    "HINGED_HOST",
    "HINGED_PORT",
    "HINGED_NODE",
    "HINGED_DATA_DIR",
    "HINGED_STORE",
    "HINGED_URL",
    "HINGED_PROCESSES",
    "HINGED_FOLLOWERS",
)
"""Settings that differ between servers."""


class ClusterStart(NamedTuple):
    """The arguments of `start`."""

    store: str
    port: int
    every: float
    environment: dict[str, str]


def server_name(node: str) -> str:
    """Return the name of the actor on a node of Ray."""
    return f"server-{node}"


def address_of(host: str, port: int) -> str:
    """Return the URL at which servers and clients reach the server on a node."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def settings_of(wanted: ClusterStart, host: str) -> dict[str, str]:
    """Return the settings of the server on a node: the cluster's settings, and its own address."""
    return {
        **wanted.environment,
        "HINGED_STORE": wanted.store,
        "HINGED_HOST": host,
        "HINGED_PORT": str(wanted.port),
        "HINGED_NODE": address_of(host, wanted.port),
    }


def environment_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that all servers share."""
    return {name: value for name, value in environment.items() if name.startswith("HINGED_") and name not in OWN}


def changes(nodes: Mapping[str, str], actors: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the nodes of Ray without a server, and the servers whose node no longer exists.

    nodes: the live nodes, with their addresses. actors: the names of the actors.
    """
    servers = {name.removeprefix("server-") for name in actors if name.startswith("server-")}
    return sorted(nodes.keys() - servers), sorted(servers - nodes.keys())


class ServerActor:
    """An actor that runs `hinged serve`. When either the actor or the server ends, the other ends too."""

    def __init__(self, settings: dict[str, str]) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("HINGED_")}
        self._url = settings["HINGED_NODE"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hinged.commands.bound", "serve"], env={**own, **settings}, stdin=subprocess.PIPE
        )
        self._stopping = False
        threading.Thread(target=self._wait, daemon=True).start()

    def url(self) -> str:
        """Return the server's URL when the server is ready."""
        with Client(self._url) as client:
            client.wait_until_ready(READY_S)
        return self._url

    def pid(self) -> int:
        """Return the process id of the server."""
        return self._process.pid

    def stop(self) -> None:
        """Let the server drain and end."""
        self._stopping = True
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        if self._process.stdin is not None:
            self._process.stdin.close()  # the process ends in any case

    def _wait(self) -> None:
        self._process.wait()
        if not self._stopping:
            os._exit(1)  # so that Ray starts this actor and its server again


class ControllerActor:
    """An actor that keeps a server running on every node of Ray and moves models."""

    def __init__(self, wanted: ClusterStart) -> None:
        self._wanted = wanted
        threading.Thread(target=self._run, daemon=True).start()

    def alive(self) -> bool:
        """Return True as soon as the actor runs."""
        return True

    def _run(self) -> None:
        from hinged.service.cluster.controller import Controller  # noqa: PLC0415
        from hinged.service.errors import ServiceError  # noqa: PLC0415

        wanted, name = self._wanted, f"ray-{os.getpid()}-{time.time_ns()}"
        space = wanted.environment.get("HINGED_REDIS_NAMESPACE", "hinged")
        while True:
            try:
                with closing(open_board(wanted.store, name, wanted.every, space)) as board:
                    controller = Controller(board.hold, lambda: self._ask(lambda client: client.cluster()), self._move)
                    keep_balanced(controller, wanted.every, ServiceError, before=lambda: place_servers(wanted))
            except Exception:  # Ray may be unreachable for a while
                log.exception("the controller starts again")
            time.sleep(wanted.every)

    def _move(self, model: str, to: str) -> None:
        self._ask(lambda client: client.move(model, to=to))

    def _ask(self, question: Callable[[Client], Any]) -> Any:
        """Return the answer of the first server that can be reached."""
        key = self._wanted.environment.get("HINGED_KEY") or None
        unreachable = HingedError("Ray has no live node", code="unreachable")
        for host in living_nodes().values():
            with Client(address_of(host, self._wanted.port), key=key) as client:
                try:
                    return question(client)
                except HingedError as error:
                    if error.code != "unreachable":
                        raise
                    unreachable = error
        raise unreachable


# -- Ray ---------------------------------------------------------------------------------------------------------------


def living_nodes() -> dict[str, str]:
    """Return the live nodes of Ray, with their addresses."""
    import ray  # noqa: PLC0415  only users of Ray have it

    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def place_servers(wanted: ClusterStart) -> None:
    """Start a server on every node without a server. Remove the servers whose node no longer exists."""
    import ray  # noqa: PLC0415
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    nodes = living_nodes()
    lacking, gone = changes(nodes, ray.util.list_named_actors())
    for node in lacking:
        pinned = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        begin(ServerActor, server_name(node), settings_of(wanted, nodes[node]), scheduling_strategy=pinned)
    for node in gone:
        with suppress(ValueError):  # it is already dropped
            ray.kill(ray.get_actor(server_name(node)), no_restart=True)


def begin(kind: type, name: str, *args: Any, **options: Any) -> Any:
    """Return the detached actor with this name. Make the actor if necessary. Ray restarts the actor whenever the actor
    ends.
    """
    import ray  # noqa: PLC0415

    lasting = {"lifetime": "detached", "max_restarts": -1, "max_concurrency": 4, "num_cpus": 0}
    return ray.remote(kind).options(name=name, get_if_exists=True, **lasting, **options).remote(*args)


def joined(address: str) -> Any:
    """Connect to Ray as one of its drivers."""
    with needed("ray", "hinged cluster start"):
        import ray  # noqa: PLC0415

    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="warning")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise click.ClickException(f"cannot reach Ray at {address}: {error}") from error
    return ray


def refuse(wanted: ClusterStart, hosts: Iterable[str]) -> None:
    """Raise ClickException for settings with which no server could start."""
    with needed("server", "hinged cluster start"):
        from hinged.service.cluster.node import as_node  # noqa: PLC0415
        from hinged.service.edge.access import refuse_open_door  # noqa: PLC0415
        from hinged.service.errors import ServiceError  # noqa: PLC0415
        from hinged.service.settings import Settings  # noqa: PLC0415

    try:
        for host in hosts:
            node = address_of(host, wanted.port)
            refuse_open_door(as_node(Settings(store=wanted.store, host=host, port=wanted.port, node=node)))
    except ServiceError as error:
        raise click.ClickException(error.message) from error


RAY = click.option("--ray", "address", metavar="ADDRESS", required=True, help="Address of Ray: HOST:PORT, or auto.")


@click.command()
@RAY
@click.option("--store", envvar="HINGED_STORE", show_envvar=True, required=True, help="The Redis that servers share.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Of each server.")
@click.option(
    "--every", type=positive, default="10", show_default=True, help="Seconds between two rounds of the controller."
)
def start(address: str, store: str, port: int, every: float) -> None:
    """Start a server on every node of Ray, and a controller. They go on after this command ends.

    They get this command's settings HINGED_*. Nodes that join later get a server, too.
    """
    wanted = ClusterStart(store, port, every, environment_of(os.environ))
    ray = joined(address)
    refuse(wanted, living_nodes().values())
    place_servers(wanted)
    servers = [ray.get_actor(server_name(node)) for node in living_nodes()]
    try:
        for url in ray.get([server.url.remote() for server in servers], timeout=READY_S):
            write(url)
    except ray.exceptions.RayError as error:
        raise click.ClickException(f"a server has not started: {error}; Ray's logs say why") from error
    ray.get(begin(ControllerActor, CONTROLLER, wanted).alive.remote())


@click.command()
@RAY
def stop(address: str) -> None:
    """Stop the servers and the controller that `start` left on Ray. Models and logs stay in Redis."""
    ray = joined(address)
    names = sorted(ray.util.list_named_actors())  # stop the controller first, because it would start the servers again
    for name in names:
        actor = ray.get_actor(name)
        if name != CONTROLLER:
            with suppress(ray.exceptions.RayError):
                ray.get(actor.stop.remote(), timeout=STOP_S)
        ray.kill(actor, no_restart=True)
    write(f"{sum(name != CONTROLLER for name in names)} servers stopped")
