"""`hinged cluster start` and `stop`: servers and their controller as actors of Ray, which puts them up again.

On each node of Ray there is one actor, detached, whose process runs the normal server beside it, uvicorn in front; when
the server ends the actor ends, and Ray starts it anew. One more is the controller: it sees that every node has a
server, and moves models (service/cluster/controller.py). Ray is asked for nothing else: who owns what stands in Redis,
and requests go to the servers themselves.
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
"""The server drains for HINGED_SHUTDOWN_S, 20 s unless set otherwise."""
OWN = (
    "HINGED_HOST",
    "HINGED_PORT",
    "HINGED_NODE",
    "HINGED_DATA_DIR",
    "HINGED_STORE",
    "HINGED_URL",
    "HINGED_PROCESSES",
    "HINGED_FOLLOWERS",
    "HINGED_READERS",
    "HINGED_WORKERS",
)
"""What each server is told for itself."""


class ClusterStart(NamedTuple):
    """What a cluster is started with."""

    store: str
    port: int
    every: float
    environment: dict[str, str]


def server_name(node: str) -> str:
    """The name of the actor on a node of Ray."""
    return f"server-{node}"


def address_of(host: str, port: int) -> str:
    """Under which the servers and clients reach the one on a node."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def settings_of(wanted: ClusterStart, host: str) -> dict[str, str]:
    """The settings of the server on a node: those with which the cluster was started, and its own address."""
    return {
        **wanted.environment,
        "HINGED_STORE": wanted.store,
        "HINGED_HOST": host,
        "HINGED_PORT": str(wanted.port),
        "HINGED_NODE": address_of(host, wanted.port),
    }


def environment_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that all servers share."""
    return {name: value for name, value in environment.items() if name.startswith("HINGED_") and name not in OWN}


def changes(nodes: Mapping[str, str], actors: Iterable[str]) -> tuple[list[str], list[str]]:
    """The nodes of Ray that lack a server, and the servers whose node is gone.

    nodes: those that live, with their addresses. actors: by name.
    """
    servers = {name.removeprefix("server-") for name in actors if name.startswith("server-")}
    return sorted(nodes.keys() - servers), sorted(servers - nodes.keys())


class ServerActor:
    """Keeps `hinged serve` beside it; ends with it, and it with this."""

    def __init__(self, settings: dict[str, str]) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("HINGED_")}
        self._url = settings["HINGED_NODE"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hinged.commands.bound", "serve"], env={**own, **settings}, stdin=subprocess.PIPE
        )
        self._stopping = False
        threading.Thread(target=self._wait, daemon=True).start()

    def url(self) -> str:
        """Where the server is to be asked, once it is ready."""
        with Client(self._url) as client:
            client.wait_until_ready(READY_S)
        return self._url

    def pid(self) -> int:
        """Of the server."""
        return self._process.pid

    def stop(self) -> None:
        """Let the server drain and end."""
        self._stopping = True
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        if self._process.stdin is not None:
            self._process.stdin.close()  # at which it ends in any case

    def _wait(self) -> None:
        self._process.wait()
        if not self._stopping:
            os._exit(1)  # so that Ray starts this actor, and with it a server, anew


class ControllerActor:
    """Sees that every node of Ray has a server, and moves models where that is needed."""

    def __init__(self, wanted: ClusterStart) -> None:
        self._wanted = wanted
        threading.Thread(target=self._run, daemon=True).start()

    def alive(self) -> bool:
        """Once this runs."""
        return True

    def _run(self) -> None:
        from hinged.service.cluster.controller import Controller  # noqa: PLC0415
        from hinged.service.errors import ServiceError  # noqa: PLC0415

        wanted, name = self._wanted, f"ray-{os.getpid()}-{time.time_ns()}"
        space = wanted.environment.get("HINGED_REDIS_NAMESPACE", "hinged")
        while True:
            try:
                with closing(open_board(wanted.store, name, wanted.every, space)) as board:
                    controller = Controller(board, lambda: self._ask(lambda client: client.cluster()), self._move)
                    keep_balanced(controller, wanted.every, ServiceError, before=lambda: place_servers(wanted))
            except Exception:  # Ray may be away for a while, too
                log.exception("the controller begins anew")
            time.sleep(wanted.every)

    def _move(self, model: str, to: str) -> None:
        self._ask(lambda client: client.move(model, to=to))

    def _ask(self, question: Callable[[Client], Any]) -> Any:
        """What the first server says that can be reached."""
        key = self._wanted.environment.get("HINGED_KEY") or None
        unreachable = HingedError("no node of Ray lives", code="unreachable")
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
    """The nodes of Ray that live, with their addresses."""
    import ray  # noqa: PLC0415  only who asks for it has it

    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def place_servers(wanted: ClusterStart) -> None:
    """Start a server on every node that lacks one; forget those whose node is gone."""
    import ray  # noqa: PLC0415
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    nodes = living_nodes()
    lacking, gone = changes(nodes, ray.util.list_named_actors())
    for node in lacking:
        pinned = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        begin(ServerActor, server_name(node), settings_of(wanted, nodes[node]), scheduling_strategy=pinned)
    for node in gone:
        with suppress(ValueError):  # it is forgotten already
            ray.kill(ray.get_actor(server_name(node)), no_restart=True)


def begin(kind: type, name: str, *args: Any, **options: Any) -> Any:
    """A detached actor that Ray starts anew whenever it ends; the one that there is under this name."""
    import ray  # noqa: PLC0415

    lasting = {"lifetime": "detached", "max_restarts": -1, "max_concurrency": 4, "num_cpus": 0}
    return ray.remote(kind).options(name=name, get_if_exists=True, **lasting, **options).remote(*args)


def joined(address: str) -> Any:
    """Ray, as one of its programs."""
    with needed("ray", "hinged cluster start"):
        import ray  # noqa: PLC0415

    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="warning")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise click.ClickException(f"there is no Ray at {address}: {error}") from error
    return ray


def refuse(wanted: ClusterStart, hosts: Iterable[str]) -> None:
    """ClickException for settings with which no server would start."""
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


RAY = click.option("--ray", "address", metavar="ADDRESS", required=True, help="Of Ray: HOST:PORT, or auto.")


@click.command()
@RAY
@click.option("--store", envvar="HINGED_STORE", show_envvar=True, required=True, help="The Redis that servers share.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Of each server.")
@click.option("--every", type=positive, default="10", show_default=True, help="Seconds between two looks at balance.")
def start(address: str, store: str, port: int, every: float) -> None:
    """Start a server on every node of Ray, and a controller; both go on without this command.

    Settings HINGED_* are those of this command. Nodes that join later get a server, too.
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
    """Stop the servers and the controller that `start` left on Ray, in order; models and logs stay in Redis."""
    ray = joined(address)
    names = sorted(ray.util.list_named_actors())  # the controller first, which would start servers anew
    for name in names:
        actor = ray.get_actor(name)
        if name != CONTROLLER:
            with suppress(ray.exceptions.RayError):
                ray.get(actor.stop.remote(), timeout=STOP_S)
        ray.kill(actor, no_restart=True)
    write(f"{sum(name != CONTROLLER for name in names)} servers stopped")
