"""Servers that share a Redis. Each server writes some models. The servers forward requests, move models, and die."""

import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from hinged.client import Client
from tests.helpers.command import hinged
from tests.helpers.http_client import example
from tests.helpers.nodes import Nodes, ask, make
from tests.helpers.server import PATIENCE_S, RunningServer, eventually
from tests.helpers.stream_client import followed, granted, opened

KEYS = ("model", "owner", "epoch", "position")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with Nodes(tmp_path_factory.mktemp("nodes"), 2) as nodes:
        yield nodes


def learn(server, name, *ids):
    examples = [example([k, 1.0], "ab"[k % 2], given) for k, given in enumerate(ids)]
    return ask(server, "POST", f"/models/{name}/learn", json={"examples": examples})


def owner_of(server, name):
    found = ask(server, "GET", "/cluster").json()["models"]
    return next(model["owner"] for model in found if model["model"] == name)


def owners(server):
    return {model["owner"] for model in ask(server, "GET", "/cluster").json()["models"]}


def until_answered(server, name):
    answers = []

    def answered():
        answers.append(ask(server, "GET", f"/models/{name}"))
        assert answers[-1].status_code in {200, 503}, answers[-1].text
        return answers[-1].status_code == 200

    eventually(answered)
    return answers[-1].json()


def test_the_server_that_creates_a_model_owns_it_and_any_server_answers_for_it(here, there):
    make(here, "created")
    assert learn(there, "created", "a", "b").json()["position"] == learn(here, "created", "a").json()["position"]
    assert owner_of(there, "created") == here.url
    assert ask(there, "GET", "/models/created").json()["examples"] == 2


def test_a_request_that_is_passed_on_keeps_its_query_method_and_errors(here, there):
    make(here, "passed")
    learn(here, "passed", "a", "b")
    asked = ask(there, "GET", "/models/passed/examples?n=1")
    assert len(asked.json()["examples"]) == 1
    refused = ask(there, "POST", "/models/passed/predict?other=1", json={})
    assert (refused.status_code, refused.json()) == (
        422,
        ask(here, "POST", "/models/passed/predict?other=1", json={}).json(),
    )
    export = ask(there, "GET", "/models/passed/export")
    assert export.status_code == 200
    assert export.content == ask(here, "GET", "/models/passed/export").content
    assert ask(there, "DELETE", "/models/passed").status_code == 200
    assert ask(here, "GET", "/models/passed").status_code == 404


def test_a_body_in_pieces_is_passed_on_as_it_comes(here, there):
    make(here, "pieces")
    pieces = iter([b'{"examples": [{"x": [1.0, 2.0], ', b'"y": "a"}]}'])
    answer = ask(there, "POST", "/models/pieces/learn", content=pieces, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text


def test_a_client_that_prefers_it_is_redirected(here, there):
    make(here, "told")
    answer = ask(there, "GET", "/models/told?x=1", headers={"prefer": "respond-async, redirect"})
    assert (answer.status_code, answer.headers["location"]) == (307, f"{here.url}/models/told?x=1")


def test_a_server_passes_a_request_on_at_most_once(here, there):
    make(here, "hop")
    answer = ask(there, "GET", "/models/hop", headers={"hinged-passed-on": f"http://elsewhere {there.url}"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_servers_that_have_not_heard_of_moves_reach_the_model(tmp_path):
    with Nodes(tmp_path, 3, node_ttl_s=60) as nodes:
        first, second, third = nodes.servers
        make(first, "moved")
        assert ask(second, "GET", "/models/moved").status_code == ask(third, "GET", "/models/moved").status_code == 200
        for source, target in ((first, second), (second, first), (first, second)):
            answer = ask(source, "POST", "/cluster/models/moved/move", json={"to": target.url})
            assert answer.status_code == 200, answer.text
            assert learn(third, "moved", source.url).status_code == 200
            with opened(third.url, "/models/moved/stream") as socket:
                granted(socket.ask("predict", examples=[{"x": [0.5, 1.0]}]))
            with followed(third.url, "/models/moved/events?from=0") as stream:
                assert stream.event()["event"] == "created"


def test_an_event_stream_is_passed_on(here, there):
    make(here, "followed")
    with (
        httpx.Client(timeout=PATIENCE_S) as http,
        http.stream("GET", f"{there.url}/models/followed/events?from=0") as stream,
    ):
        lines = stream.iter_lines()
        assert any("class_added" in line or "learned" in line or "created" in line for line in lines)


def test_a_moved_model_is_the_same_and_nothing_is_lost_while_it_moves(here, there):
    make(here, "moved")
    with Client(here.url) as client, ThreadPoolExecutor(4) as pool:
        writes = [
            pool.submit(client.learn, "moved", [{"id": f"e{k}", "x": [k % 7, 1.0], "y": "ab"[k % 2]}])
            for k in range(60)
        ]
        answer = ask(there, "POST", "/cluster/models/moved/move", json={"to": there.url})
        assert answer.status_code == 200, answer.text
        assert tuple(answer.json()) == KEYS
        assert answer.json()["owner"] == there.url
        for write in writes:
            write.result()
    assert owner_of(here, "moved") == there.url
    assert ask(here, "GET", "/models/moved").json()["examples"] == 60


def test_a_move_to_an_unknown_server_is_refused_and_changes_nothing(here, there):
    make(here, "stays")
    answer = ask(there, "POST", "/cluster/models/stays/move", json={"to": "http://127.0.0.1:9"})
    assert answer.status_code == 409
    assert "there is no server at 'http://127.0.0.1:9'" in answer.text
    assert ask(here, "POST", "/cluster/models/stays/move", json={"to": here.url}).json()["owner"] == here.url
    assert ask(here, "POST", "/cluster/models/none/move", json={"to": there.url}).status_code == 404


def test_the_client_learns_where_a_model_is_and_asks_there(here, there):
    make(here, "asked")
    with Client(there.url) as client:
        client.learn("asked", [{"x": [1.0, 2.0], "y": "a"}])
        assert client.owners == {"asked": here.url}
        ask(here, "POST", "/cluster/models/asked/move", json={"to": there.url})
        client.learn("asked", [{"x": [2.0, 2.0], "y": "b"}])
        assert client.owners["asked"] == there.url
        with client.stream("asked") as stream:
            assert stream.learn([{"x": [2.0, 1.0], "y": "b"}]).result()["position"]


def test_a_server_reports_the_other_servers(here, there):
    make(here, "shown")
    shown = ask(there, "GET", "/cluster").json()
    assert shown["node"] == there.url
    assert {node["node"] for node in shown["nodes"] if node["alive"]} == {here.url, there.url}
    figures = next(node for node in shown["nodes"] if node["node"] == here.url)
    assert figures["beat_age_s"] < 10
    assert figures["memory_max_bytes"] > 2**20
    assert figures["processors"] >= 1
    model = next(model for model in shown["models"] if model["model"] == "shown")
    assert (model["owner"], model["position"], model["state"], model["lag"]) == (here.url, 1, "serving", 0)
    assert model["memory_bytes"] >= 0 <= model["load"]
    own = ask(there, "GET", "/cluster/node").json()
    assert own["node"] == there.url
    assert "shown" not in {model["model"] for model in own["models"]}
    text = ask(here, "GET", "/metrics").text
    assert "hinged_cluster_nodes 2.0" in text
    assert f'hinged_cluster_node_up{{node="{there.url}"}} 1.0' in text
    assert f'hinged_cluster_node_processors{{node="{there.url}"}}' in text
    assert float(re.search(r'hinged_cluster_epoch{model="shown"} (\S+)', text)[1]) == model["epoch"]
    assert "hinged_cluster_passed_on_total" in text


def test_without_an_answer_of_a_server_its_models_are_shown_without_figures(here, third):
    make(third, "untold")
    third.process.send_signal(signal.SIGSTOP)
    try:
        shown = ask(here, "GET", "/cluster").json()["models"]
    finally:
        third.process.send_signal(signal.SIGCONT)
    model = next(model for model in shown if model["model"] == "untold")
    assert model["owner"] == third.url
    assert "state" not in model


@pytest.mark.long
def test_a_starting_server_is_ready_once_the_models_that_it_claims_are_loaded(tmp_path):
    names = [f"m{k}" for k in range(12)]
    with Nodes(tmp_path, 1) as nodes:
        (server,) = nodes.servers
        for name in names:
            make(server, name)
        server.terminate()
        server.start()
        assert [ask(server, "GET", f"/models/{name}").status_code for name in names] == [200] * len(names)
        assert ask(server, "GET", "/readyz").json()["models"]["serving"] == len(names)


def run_balance(nodes, *options):
    return hinged("cluster", "balance", "--store", nodes.redis.url, *options).stdout


@pytest.mark.long
def test_a_server_that_joins_gets_models_when_the_controller_runs(nodes, here, third):
    for k in range(12):
        make(here, f"balanced{k}")
    would = run_balance(nodes, "--url", third.url, "--dry-run")
    assert f"-> {third.url}" in would
    assert owners(here).isdisjoint({third.url})
    run_balance(nodes, "--url", third.url)
    assert third.url in owners(here)
    for k in range(12):
        assert learn(here, f"balanced{k}", "a").status_code == 200
    again = run_balance(nodes, "--url", here.url)
    assert again == "no model needs to move\n"


@contextmanager
def another(nodes, **environment):
    """Start one more server, and wait until the other servers know it."""
    server = nodes.add()
    server.env.update(environment)
    with server:
        eventually(
            lambda: any(n["node"] == server.url for n in ask(nodes.servers[0], "GET", "/cluster").json()["nodes"])
        )
        yield server


@pytest.fixture
def third(nodes):
    """A server that a test may kill."""
    with another(nodes) as server:
        yield server


def test_host_and_origin_are_checked_by_the_server_that_is_asked(nodes, there):
    make(there, "named")
    with another(nodes, HINGED_ALLOWED_HOSTS="front.example,127.0.0.1") as server:

        def said(given, **headers):
            body = {"examples": [example([1.0, 1.0], "a", given)]}
            return ask(server, "POST", "/models/named/learn", json=body, headers=headers).status_code

        assert said("a", host="front.example") == said("b", host="front.example", origin="http://front.example") == 200
        assert said("c", host="evil.example") == 400
        assert said("d", host="front.example", origin="http://evil.example") == 403
        assert said("e", host="front.example", origin=there.url) == 403
    assert ask(there, "GET", "/models/named").json()["examples"] == 2


def test_other_servers_answer_for_the_models_of_a_killed_server(here, third):
    make(third, "orphan")
    learn(third, "orphan", "a", "b", "c")
    third.kill()
    assert until_answered(here, "orphan")["examples"] == 3
    assert owner_of(here, "orphan") != third.url


@pytest.mark.long
def test_a_server_whose_models_were_claimed_while_it_slept_writes_nothing_and_asks_their_owners(here, third):
    make(third, "slept")
    learn(third, "slept", "a")
    third.process.send_signal(signal.SIGSTOP)
    until_answered(here, "slept")
    learn(here, "slept", "b")
    third.process.send_signal(signal.SIGCONT)
    answer = learn(third, "slept", "c")
    assert answer.status_code == 200, answer.text
    assert ask(third, "GET", "/models/slept").json()["examples"] == 3
    assert owner_of(third, "slept") != third.url


def test_a_server_that_stops_in_order_leaves_its_models_to_the_others_at_once(here, third):
    make(third, "left")
    learn(third, "left", "a")
    third.terminate()
    assert until_answered(here, "left")["examples"] == 1


@pytest.mark.long
def test_no_server_answers_from_memory_while_the_store_is_away_for_long(nodes, here):
    make(here, "unsure")
    learn(here, "unsure", "a", "b")
    one = {"examples": [{"x": [0.0, 1.0]}]}
    nodes.redis.pause()
    try:
        eventually(lambda: ask(here, "POST", "/models/unsure/predict", json=one).status_code == 503)
        refused = ask(here, "POST", "/models/unsure/predict", json=one)
        assert "this server has not reached the store for 1 s" in refused.text
    finally:
        nodes.redis.go_on()
    eventually(lambda: ask(here, "POST", "/models/unsure/predict", json=one).status_code == 200)


def test_a_server_without_a_node_setting_is_no_node(tmp_path):
    code, said = RunningServer(tmp_path / "data", node="http://127.0.0.1:8000").run()
    assert code == 1
    assert "HINGED_NODE: servers share a store on Redis, got HINGED_STORE=sqlite" in said


def test_the_model_of_a_server_that_just_joined_is_found_before_the_next_sign_of_life(tmp_path):
    with Nodes(tmp_path, 1, node_ttl_s=60) as nodes, nodes.add() as joined:
        make(joined, "new")
        answer = ask(nodes.servers[0], "GET", "/models/new")
        assert answer.status_code == 200, answer.text
