"""`hinged consume` and MQTT, against a real Mosquitto."""

import asyncio
import json
import random
import subprocess
import time
from itertools import count

import pytest

from hinged.commands import brokers
from tests.faults.kill_consuming import Consuming
from tests.helpers.brokers import MqttBroker, opened
from tests.helpers.certificates import self_signed
from tests.helpers.server import eventually
from tests.helpers.tcp_proxy import Proxy


async def _read(url, least, disturb=None, *, batch=10, until=None):
    """Return the messages that a group reads, in batches, until it has read `least` different messages, and
    the message `until`."""
    batches, whole = [], asyncio.Event()

    async def take(messages):
        batches.append([json.loads(message.body) for message in messages])
        if disturb is not None:
            await asyncio.to_thread(disturb)
        found = {number for batch in batches for number in batch}
        if len(found) >= least and (until is None or until in found):
            whole.set()
        return True

    async with opened(url, "g", batch) as (broker, topic):
        await broker.start(topic, take)
        await whole.wait()
        await asyncio.sleep(0.3)  # a message that comes again would come now
    return batches


def read(*arguments, **named):
    return asyncio.run(asyncio.wait_for(_read(*arguments, **named), 120))


def begin(broker, *topics):
    """Begin the session of the group, as its first start does."""
    for topic in topics:
        asyncio.run(broker._begin(broker.url(topic), "g"))


def test_a_batch_is_limited_and_an_acknowledged_message_does_not_come_again(tmp_path):
    with MqttBroker(tmp_path) as broker:
        begin(broker, "t")
        broker.publish("t", range(50))
        batches = read(broker.url("t"), 50, batch=7)
        assert [number for batch in batches for number in batch] == list(range(50))
        assert max(map(len, batches)) <= 7
        broker.publish("t", [99])
        assert read(broker.url("t"), 1) == [[99]]


@pytest.mark.long
@pytest.mark.parametrize("how", ["connections are cut", "the broker starts again"])
def test_nothing_is_lost_while(how, tmp_path):
    rng, times = random.Random(how), count()
    with MqttBroker(tmp_path) as broker, Proxy(broker.port) as proxy:
        begin(broker, "t")
        broker.publish("t", range(300), at_once=300)

        def disturb():
            if proxy.links and rng.random() < 0.2 and next(times) < 6:
                if how == "the broker starts again":
                    broker.restart()
                proxy.cut()
                if rng.random() < 0.5:
                    time.sleep(rng.uniform(0.0, 1.5))  # the client has connected again when the batch is acknowledged

        batches = read(f"mqtt://127.0.0.1:{proxy.port}/t", 300, disturb)
        assert {number for batch in batches for number in batch} == set(range(300))
        broker.publish("t", [300])
        again = read(broker.url("t"), 1, until=300)
        assert again[-1][-1] == 300
        broker.publish("t", [301])
        assert read(broker.url("t"), 1) == [[301]]


def test_a_topic_may_have_levels_and_wildcards_and_a_retained_message_comes_once(tmp_path):
    from paho.mqtt import publish  # noqa: PLC0415

    with MqttBroker(tmp_path) as broker:
        publish.single("plant/1/heat", "1", qos=1, retain=True, hostname="127.0.0.1", port=broker.port)
        url = broker.url("plant/+/%23")
        assert read(url, 1) == [[1]]
        broker.publish("plant/2/heat", [2])
        assert read(url, 1) == [[2]]


def test_a_login_may_need_a_password_and_a_certificate(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "p@ss/w:rd%41#?")
    certificate, key = self_signed(tmp_path, "IP:127.0.0.1")
    (tmp_path / "users").touch(mode=0o600)
    subprocess.run(["mosquitto_passwd", "-b", tmp_path / "users", "me", "p@ss/w:rd%41#?"], check=True)
    lines = (f"certfile {certificate}", f"keyfile {key}", f"password_file {tmp_path}/users")
    with MqttBroker(tmp_path / "broker", *lines) as broker:
        url = f"mqtts://%s@127.0.0.1:{broker.port}/t?ca={certificate}"
        asyncio.run(broker._begin(url % "me:$SECRET", "g"))
        for login in ("me", "you:$SECRET"):
            with pytest.raises(brokers.BrokerError, match="the broker refuses the connection: Not authorized"):
                asyncio.run(broker._begin(url % login, "g"))


def test_a_refusal_of_the_broker_has_its_reason(tmp_path):
    (tmp_path / "acl").write_text("topic read t\n")
    with MqttBroker(tmp_path / "broker", f"acl_file {tmp_path}/acl") as broker:
        with pytest.raises(brokers.BrokerError, match="the broker refuses a message for 't': Not authorized"):
            broker.publish("t", [1])
        with pytest.raises(ValueError, match="Invalid subscription filter"):
            begin(broker, "a%23")


@pytest.mark.long
def test_messages_with_an_id_are_learned_predicted_and_set_aside_in_order(real, client, tmp_path):
    client.create_model("heat", features={"type": "dense", "dim": 2}, solver="lasvm", kernel={"type": "linear"})
    values = [
        {"id": 1, "x": [0, 1], "y": "u"},
        {"id": 2, "x": [1, 0], "y": "v"},
        b"{",
        {"id": 3, "x": [1, 0]},
        {"x": [0, 1], "y": "u"},
        {"id": 1, "x": [0, 1], "y": "u"},
    ]
    with MqttBroker(tmp_path / "broker") as broker:
        broker.prepare("heat", "predictions", "dead")
        broker.publish("heat", values)
        consumer = Consuming(broker.url("heat"), real.url, tmp_path / "log", 100, "heat")
        consumer.arguments += ["--to", "predictions", "--dead-letter", broker.url("dead")]
        consumer.start()
        (prediction,), dead = broker.read("predictions", 1), broker.read("dead", 2)
        broker.publish("heat", [{"id": "last", "x": [0, 2], "y": "u"}])
        eventually(lambda: client.model("heat")["examples"] == 3)
        assert consumer.stop() == "heat: 3 learned, 1 known already, 1 predicted, 2 to the dead letters"
    assert (prediction["id"], prediction["prediction"]) == ("3", "v")
    assert "expected JSON" in dead[0]["reason"]
    assert "the id is missing" in dead[1]["reason"]
