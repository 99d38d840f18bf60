"""Tickets of servers that share a store. A ticket of any server opens a stream of any model through any server."""

import pytest

from hinged.service.edge.keys import create_key
from tests.helpers.http_client import BASE, bearer, refusal
from tests.helpers.nodes import Nodes, ask
from tests.helpers.stream_client import followed


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    key = create_key(folder / "keys.json", "ann", "admin")
    with Nodes(folder, 2, keys_file=folder / "keys.json", node_ttl_s=3) as nodes:
        nodes.headers = bearer(key)
        made = ask(nodes.servers[0], "PUT", "/models/m", json=BASE, headers=nodes.headers)
        assert made.status_code == 201, made.text
        yield nodes


@pytest.mark.parametrize("giver", [0, 1])
@pytest.mark.parametrize("asked", [0, 1])
def test_a_ticket_of_any_server_opens_a_stream_through_any_once(nodes, giver, asked):
    given = ask(nodes.servers[giver], "POST", "/tickets", headers=nodes.headers).json()["ticket"]
    with followed(nodes.servers[asked].url, "/models/m/events", params={"ticket": given, "from": 0}) as lines:
        assert lines.event()["data"]["position"] == 1
    for server in nodes.servers:
        refusal(ask(server, "GET", "/models/m", params={"ticket": given}), 401, "unauthenticated")


def test_a_server_that_joins_later_accepts_tickets_like_the_others(nodes):
    with nodes.add() as later:
        given = ask(nodes.servers[0], "POST", "/tickets", headers=nodes.headers).json()["ticket"]
        assert ask(later, "GET", "/models", params={"ticket": given}).status_code == 200
