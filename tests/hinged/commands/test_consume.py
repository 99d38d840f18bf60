"""`hinged consume` and its parts, against a real server and a real Redis. tests/faults has the other brokers."""

import asyncio
import json
import shlex
from itertools import count

import pytest

from hinged import Client
from hinged.commands import brokers, consume, messages
from hinged.readers import STOP, Place, UnreadableRow
from tests.faults.kill_consuming import Consuming
from tests.helpers.brokers import RedisBroker
from tests.helpers.command import hinged
from tests.helpers.server import ROOT, eventually, free_port

NUMBERS = count()


def message(value, number=0):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return brokers.Message(Place("t", number, "message"), body, f"t/{number}")


def example(value, *, id=None, label=None, features=(), drop=(), kind=None, place="t/0"):  # noqa: A002
    fields = messages.Fields(id, label, features, drop, kind)
    return fields.example(brokers.Message(Place("t", 0, "message"), b"", place), value)


@pytest.mark.parametrize(
    ("value", "how", "wanted"),
    [
        ({"x": [1], "y": "a"}, {}, {"id": "t/0", "x": [1], "y": "a"}),
        ({"id": "k", "x": [1], "y": None}, {}, {"id": "k", "x": [1]}),
        ({"n": 7, "x": [1]}, {"id": "n"}, {"id": "7", "x": [1]}),
        ({"a": 1, "b": None, "y": "u"}, {"label": "y", "kind": "named"}, {"id": "t/0", "x": {"a": 1}, "y": "u"}),
        ({"a": 1, "b": 2, "y": None}, {"label": "y", "kind": "named", "drop": ["b"]}, {"id": "t/0", "x": {"a": 1}}),
        ({"a": 1, "b": 2}, {"features": ["b", "a"], "kind": "dense"}, {"id": "t/0", "x": [2, 1]}),
        ({"t": "hi", "y": 1}, {"label": "y", "kind": "text"}, {"id": "t/0", "x": "hi", "y": 1}),
    ],
)
def test_options_say_which_fields_are_the_id_the_label_and_the_features(value, how, wanted):
    assert example(value, **how) == wanted


@pytest.mark.parametrize(
    ("value", "how", "reason"),
    [
        ([1], {}, "expected an object"),
        ({"x": [1]}, {"id": "n"}, "the id is missing"),
        ({"x": [1]}, {"place": None}, "the id is missing"),
        ({"a": "u", "b": "v"}, {"kind": "text"}, "the fields a, b"),
    ],
)
def test_a_message_without_an_id_or_with_other_fields_is_refused_with_the_reason(value, how, reason):
    with pytest.raises(UnreadableRow, match=reason):
        example(value, **how)


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({b"data": b'{"x": 1}'}, {"x": 1}),
        ({b"x": b"[1, 2]", b"y": b"ham", b"id": b"7"}, {"x": [1, 2], "y": "ham", "id": 7}),
    ],
)
def test_an_entry_of_redis_has_a_message_or_its_fields(fields, body):
    assert json.loads(brokers.body_of(fields)) == body


@pytest.mark.parametrize("url", ["redis://h:1", "redis:///t", "http://h/t", "kafka://h:1/", "t"])
def test_a_url_without_a_known_scheme_a_host_or_a_topic_is_refused(url):
    with pytest.raises(brokers.BrokerError, match="expected SCHEME://HOST:PORT/TOPIC"):
        brokers.broker_of(url, "g", 1)


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faststream.kafka", None)
    with pytest.raises(ImportError, match=r"hinged\[consume\]"):
        brokers.broker_of("kafka://h:1/t", "g", 1)


def test_the_commands_of_the_documentation_are_accepted(monkeypatch):
    monkeypatch.setenv("PASSWORD", "sesame")
    page = (ROOT / "docs/how-to/learn-from-a-broker.md").read_text()
    commands = [shlex.split(line) for line in page.splitlines() if line.startswith("hinged consume ")]
    found = {}
    for _, _, *arguments in commands:
        options = consume.consume.make_context("consume", arguments).params
        broker, topic = brokers.broker_of(options["source"], "g", 1)
        found[type(broker).__name__] = topic
    assert found.keys() == {kind.__name__ for kind in brokers.BROKERS.values()}
    assert set(found.values()) == {"orders"}


def test_a_dead_letter_has_the_bytes_the_place_and_the_reason():
    assert json.loads(messages.dead_letter(message(b"{oh", 3), "why")) == {
        "place": "t, message 3", "reason": "why", "message": "{oh"
    }  # fmt: skip
    assert json.loads(messages.dead_letter(message(b"\xff"), "why"))["base64"] == "/w=="


def test_messages_in_avro_are_read_by_their_schema(tmp_path):
    import io  # noqa: PLC0415

    import fastavro  # noqa: PLC0415

    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": "double"}, {"name": "y", "type": "string"}],
    }
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), {"a": 0.5, "y": "u"})
    read = messages.reader(messages.Fields(None, "y", (), (), "named"), tmp_path / "r.avsc")
    assert read(message(written.getvalue())) == {"id": "t/0", "x": {"a": 0.5}, "y": "u"}
    with pytest.raises(UnreadableRow, match="expected Avro of this schema"):
        read(message(b""))
    behind_header = messages.reader(messages.Fields(None, "y", (), (), "named"), tmp_path / "r.avsc", confluent=True)
    header = b"\0" + (7).to_bytes(4, "big")
    assert behind_header(message(header + written.getvalue())) == read(message(written.getvalue()))
    for body in (b"", header[:4], b"\1" + header[1:] + written.getvalue()):
        with pytest.raises(UnreadableRow, match="the header of Confluent is missing"):
            behind_header(message(body))


@pytest.fixture
def model(client):
    name = f"consumed{next(NUMBERS)}"
    client.create_model(name, features={"type": "dense", "dim": 2}, solver="lasvm", kernel={"type": "linear"})
    return name


class Sent:
    """A MessageSender with its counts, and the messages that it refused."""

    def __init__(self, client, model):
        read = messages.reader(messages.Fields(None, None, (), (), None), None)
        self.batch = consume.MessageSender(client, model, read)
        self.counts, self.stop = self.batch.counts, self.batch.stop
        self.refused = consume.RefusedMessages(self.counts)

    def __call__(self, *values):
        return self.batch.send([message(value, number) for number, value in enumerate(values)], self.refused)


class TestBatch:
    def test_a_batch_that_comes_again_is_known(self, client, model):
        sent = Sent(client, model)
        for _ in range(2):
            sent({"x": [0, 1], "y": "u"}, {"x": [1, 0], "y": "v"})
        assert sent.counts == {"learned": 2, "known already": 2}
        assert client.model(model)["examples"] == 2

    def test_a_prediction_takes_account_of_the_labels_before_it(self, client, model):
        predictions = Sent(client, model)({"x": [0, 1], "y": "u"}, {"x": [0, 1]}, {"id": "own", "x": [0, 1]})
        assert [(found["id"], found["prediction"]) for found in predictions] == [("t/1", "u"), ("own", "u")]

    def test_a_late_label_joins_the_prediction_by_its_id(self, client, model):
        sent = Sent(client, model)
        sent({"id": "p", "x": [0, 1]}, {"id": "p", "y": "u"})
        assert sent.counts == {"predicted": 1, "learned": 1}
        assert client.example(model, "p")["label"] == "u"

    def test_refused_messages_have_their_reasons_and_the_others_are_learned(self, client, model):
        sent = Sent(client, model)
        sent(b"{", {"x": [1], "y": "u"}, {"x": [0, 1], "y": "u"}, {"id": "t/2", "x": [9, 9], "y": "v"}, {"y": "u"})
        reasons = {place.number: reason for place, reason in sent.refused.reasons.items()}
        assert sent.counts == {"learned": 1}
        assert reasons.keys() == {0, 1, 3, 4}
        assert "expected JSON" in reasons[0]
        assert "conflict" in reasons[3]

    def test_a_forgotten_example_is_no_dead_letter(self, client, model):
        sent = Sent(client, model)
        sent({"x": [0, 1], "y": "u"})
        client.wait(client.forget(model, "t/0"))
        sent({"x": [0, 1], "y": "u"})
        assert sent.counts == {"learned": 1, "forgotten before": 1}
        assert not sent.refused.reasons

    def test_without_dead_letters_the_first_bad_message_stops(self, client, model):
        sent = Sent(client, model)
        sent.refused = STOP
        with pytest.raises(UnreadableRow, match="t, message 0: expected JSON"):
            sent(b"{")

    def test_a_missing_model_is_no_fault_of_the_message(self, client):
        sent = Sent(client, "no-such-model")
        with pytest.raises(consume.HingedError, match="no-such-model"):
            sent({"x": [0, 1]})
        assert not sent.refused.reasons

    def test_an_unreachable_server_is_asked_again_until_the_consumer_stops(self, free_url, capfd):
        with Client(free_url, tries_max=1) as nobody:
            sent = Sent(nobody, "m")
            sent.stop.set()
            with pytest.raises(consume.Stopped):
                sent({"x": [0, 1], "y": "u"})
        assert "the same messages are sent again" in capfd.readouterr().err


def consumed(url):
    """Read a topic until its broker refuses."""
    asyncio.run(consume.run(None, consume.Topics(url, None, None, "g", 1), None))


@pytest.mark.parametrize("scheme", ["redis", "nats", "amqp", "mqtt"])  # the client of Kafka leaves its producer open
def test_a_broker_that_does_not_answer_is_one_sentence(scheme, monkeypatch):
    monkeypatch.setattr(consume, "CONNECT_S", 0.5)
    with pytest.raises(brokers.BrokerError, match=r"no connection to the broker of t: \S"):
        consumed(f"{scheme}://127.0.0.1:{free_port()}/t")


def test_a_topic_that_is_no_stream_is_one_sentence(tmp_path):
    with RedisBroker(tmp_path) as broker:
        with broker.client() as client:
            client.set("text", "x")
        with pytest.raises(brokers.BrokerError, match="the broker does not deliver text: WRONGTYPE"):
            consumed(broker.url("text"))


@pytest.mark.long
def test_a_stream_is_learned_predicted_and_set_aside_in_order(real, client, model, tmp_path):
    values = [
        {"x": [0, 1], "y": "u"},
        {"x": [1, 0], "y": "v"},
        b"{",
        {"x": [1, 0]},
        {"id": "own", "x": [0, 1]},
        {"x": [1], "y": "u"},
    ]
    with RedisBroker(tmp_path / "broker") as broker:
        broker.publish("events", values)
        refused = hinged("consume", model, "--from", broker.url("events"), "--url", real.url, code=1)
        assert refused.stderr.startswith("reading events; Ctrl-C stops\nhinged: events, message ")
        assert "; --dead-letter TOPIC publishes such messages and goes on" in refused.stderr
        nobody = hinged("consume", "nosuch", "--from", broker.url("events"), "--url", real.url, code=1)
        assert nobody.stderr.startswith("hinged: there is no model 'nosuch'")
        consumer = Consuming(broker.url("events"), real.url, tmp_path / "log", 100, model)
        consumer.arguments += ["--to", "predictions", "--dead-letter", broker.url("dead")]
        consumer.start()
        predictions, dead = broker.read("predictions", 2), broker.read("dead", 2)
        broker.publish("events", [{"id": "last", "x": [0, 2], "y": "u"}])
        eventually(lambda: client.model(model)["examples"] == 3)
        assert consumer.stop() == f"{model}: 3 learned, 2 predicted, 2 to the dead letters"
    assert [found["prediction"] for found in predictions] == ["v", "u"]
    assert predictions[0]["id"].startswith("events/")
    assert predictions[1]["id"] == "own"
    assert dead[0]["message"] == "{"
    assert "expected 2 features, got 1" in dead[1]["reason"]
