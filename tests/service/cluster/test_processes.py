"""Machines with two processes each, all of them members of one cluster."""

import os
import signal
from collections import Counter

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.helpers.http_client import example
from tests.helpers.nodes import Nodes, ask, make
from tests.helpers.server import ended, eventually, wait_for_children
from tests.helpers.stream_client import closed, granted, opened

MODELS = [f"m{k}" for k in range(12)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with Nodes(tmp_path_factory.mktemp("nodes"), 2, processes=2, node_ttl_s=2) as nodes:
        for k, name in enumerate(MODELS):
            make(nodes.servers[k % 2], name)
        names = {name for server in nodes.servers for name in nodes.names(server)}
        for to, name in zip(sorted(names), MODELS, strict=False):
            move(nodes.servers[0], name, to)
        for name in MODELS:
            eventually(lambda name=name: _status(nodes.servers[0], name) == 200)
        yield nodes


def move(asked, name, to):
    eventually(lambda: ask(asked, "POST", f"/cluster/models/{name}/move", json={"to": to}).status_code == 200)


def owners(server):
    return {model["model"]: model["owner"] for model in ask(server, "GET", "/cluster").json()["models"]}


def learn(http, server, name, given):
    """Learn an example. If the model has just moved, try again until its owner is known."""
    body = {"examples": [example([1.0, 2.0], "a", given)]}
    eventually(lambda: http.post(f"{server.url}/models/{name}/learn", json=body).status_code == 200)


@pytest.mark.long
def test_every_process_is_a_member_and_may_own_models(nodes, here, there):
    found = owners(here)
    assert sorted(found) == sorted(MODELS)
    assert set(found.values()) == {*nodes.names(here), *nodes.names(there)}
    shown = ask(there, "GET", "/cluster").json()
    figures = [node for node in shown["nodes"] if node["node"] in nodes.names(here)]
    assert Counter(node["memory_max_bytes"] for node in figures).most_common(1)[0][1] == 2
    assert all(model["state"] == "serving" for model in shown["models"])  # each process reported its models


@pytest.mark.long
def test_over_one_connection_each_model_is_learned_wherever_it_is(here, there):
    for server in (here, there):
        with httpx.Client(timeout=60) as http:
            for k in range(5):
                for name in MODELS:
                    learn(http, server, name, f"{server.port}-{k}")
    for server in (here, there):
        assert [ask(server, "GET", f"/models/{name}").json()["examples"] for name in MODELS] == [10] * len(MODELS)


def test_a_machine_lists_the_models_of_its_processes(nodes, here, there):
    found = owners(here)
    for server in (here, there):
        listed = {model["model"] for model in ask(server, "GET", "/models").json()["models"]}
        assert listed == {name for name, owner in found.items() if owner in nodes.names(server)}


def test_sockets_and_event_streams_reach_every_process(here):
    for name in MODELS:
        eventually(lambda name=name: _streams(here, name))


def test_a_redirect_leads_to_the_machine(nodes, here, there):
    name = next(name for name, owner in owners(here).items() if owner in nodes.names(there))
    answer = ask(here, "GET", f"/models/{name}", headers={"prefer": "redirect"})
    assert (answer.status_code, answer.headers["location"]) == (307, f"{there.url}/models/{name}")
    name = next(name for name, owner in owners(here).items() if owner in nodes.names(here))
    assert ask(here, "GET", f"/models/{name}", headers={"prefer": "redirect"}).status_code == 200


def test_a_model_moves_from_process_to_process(nodes, here):
    first, second = nodes.names(here)
    make(here, "moved")
    for to in (first, second, first):
        move(here, "moved", to)
        with opened(here.url, "/models/moved/stream") as socket:
            granted(socket.ask("learn", examples=[example([1.0, 1.0], "a", "one")]))
            move(here, "moved", second if to == first else first)
            assert closed(socket) == (1012, "model moved goes to another server")
    assert ask(here, "GET", "/models/moved").json()["examples"] == 1


def test_a_process_that_is_killed_comes_back_and_its_models_answer(here, there):
    victim, *_ = wait_for_children(here.process.pid, 2)
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: ended(victim))
    for name in MODELS:
        eventually(lambda name=name: _status(there, name) == 200)
    eventually(lambda: len(wait_for_children(here.process.pid, 2)) == 2)
    eventually(lambda: ask(here, "GET", "/readyz").status_code == 200)


def _streams(server, name):
    """Return whether a socket and an event stream reach a model. Until a process has heard of the model's last move, it
    answers that the client should ask again.
    """
    with httpx.Client(timeout=60) as http, http.stream("GET", f"{server.url}/models/{name}/events?from=0") as events:
        if events.status_code == 503:
            return False
        assert events.status_code == 200
        assert next(line for line in events.iter_lines() if line.startswith("event:")) == "event: created"
    try:
        with opened(server.url, f"/models/{name}/stream") as socket:
            assert granted(socket.ask("predict", examples=[{"x": [0.5, 1.0]}]))
    except InvalidStatus as error:
        if error.response.status_code == 503:
            return False
        raise
    return True


def _status(server, name):
    return ask(server, "GET", f"/models/{name}").status_code
