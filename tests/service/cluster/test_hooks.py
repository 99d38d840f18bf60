"""Hooks of a model whose owner changes: the new owner delivers what the former owner has not delivered."""

import pytest

from tests.helpers.nodes import Nodes, ask, make
from tests.helpers.receiver import Receiver, is_signed
from tests.helpers.server import PATIENCE_S, eventually

SETTINGS = {
    "limits": {"hook_record_s": 0.05, "hook_call_s": PATIENCE_S},
    "hooks_secret": "a secret of the operator, which is long",
}


def mark(server, size):
    """Reconfigure the model, which adds a mark; return the position of the mark."""
    answer = ask(server, "PATCH", "/models/called", json={"labels": {"pool_max": size}})
    assert answer.status_code == 200, answer.text
    return answer.json()["position"]


def waiting(server):
    (hook,) = ask(server, "GET", "/models/called/hooks").json()["hooks"]
    return hook["waiting"]


@pytest.mark.long
def test_a_new_owner_delivers_the_rest_in_order_after_a_move_and_after_a_kill(tmp_path):
    with Receiver() as receiver, Nodes(tmp_path, 2, hooks_hosts=receiver.host, **SETTINGS) as nodes:
        here, there = nodes.servers
        make(here, "called")
        body = {"url": receiver.host, "events": ["reconfigured"]}
        hook = ask(here, "POST", "/models/called/hooks", json=body).json()

        def until_delivered(at):
            """Wait until the receiver has accepted the messages of these positions. Some may come twice, and so may
            earlier messages, if their owner ended before it had noted the delivery.
            """
            eventually(lambda: {told["data"]["position"] for told in receiver.told()} >= set(at))
            positions = [told["data"]["position"] for told in receiver.told()]
            got = list(zip(positions, receiver.ids(), strict=False))
            got = [each for each in dict.fromkeys(got) if each[0] in at]
            assert ([position for position, _ in got], len({given for _, given in got})) == (at, len(at))
            assert all(is_signed(headers, told, hook["secret"]) for headers, told in receiver.got)
            receiver.got.clear()

        until_delivered([mark(here, 11)])
        eventually(lambda: waiting(there) == 0)
        # The receiver hangs. So the model moves before its first message is accepted.
        receiver.open.clear()
        at = [mark(here, size) for size in (12, 13)]
        receiver.wait_for(1)
        assert ask(here, "POST", "/cluster/models/called/move", json={"to": there.url}).status_code == 200
        assert waiting(here) == 2
        receiver.open.set()
        until_delivered(at)
        eventually(lambda: waiting(here) == 0)
        # The new owner is killed in the middle of a call, and the other server takes the model over.
        receiver.open.clear()
        at = [mark(here, size) for size in (14, 15, 16)]
        receiver.wait_for(1)
        there.kill_all()
        receiver.open.set()
        until_delivered(at)
        eventually(lambda: waiting(here) == 0)
