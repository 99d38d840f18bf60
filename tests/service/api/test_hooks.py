"""Hooks through real servers and real receivers: signed messages, repeated calls, kills, followers, roles, secrets."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hinged import Client
from hinged.service.edge.keys import create_key
from tests.helpers.http_client import BASE, Asking, bearer, example, refusal
from tests.helpers.receiver import Receiver, is_signed
from tests.helpers.server import PATIENCE_S, RunningServer, eventually

SECRET = "a secret of the operator, which is long"  # noqa: S105
LIMITS = {"hook_record_s": 0.05, "hook_call_s": PATIENCE_S}
"""A receiver that hangs gets no second call, however slow the machine is."""


@pytest.fixture(scope="module")
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def ask(tmp_path_factory, receiver):
    folder = tmp_path_factory.mktemp("hooks") / "data"
    with (
        RunningServer(folder, limits=LIMITS, hooks_hosts=receiver.host, hooks_secret=SECRET) as server,
        Asking(server.url) as ask,
    ):
        ask.log = server.log
        yield ask
        assert "Traceback" not in server.log.read_text()


@pytest.fixture
def model(ask, receiver):
    """A new model. Its receiver accepts everything and has got nothing."""
    model = ask.new_model()
    receiver.path = f"/{model.name}/"  # a call of an earlier test may come late
    receiver.answers = []
    receiver.open.set()
    receiver.got.clear()
    yield model
    ask("DELETE", model.path)


def add(model, receiver, *events, path="/"):
    answer = model.ask(
        "POST", f"{model.path}/hooks", json={"url": f"{receiver.host}/{model.name}{path}", "events": events}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()


def mark(model, **headers):
    """Reconfigure the model, which adds a mark; return the position of the mark."""
    mark.size += 1
    answer = model.ask("PATCH", model.path, json={"labels": {"pool_max": mark.size}}, **headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["position"]


mark.size = 10


def listed(model):
    return model.ask("GET", f"{model.path}/hooks").json()["hooks"]


def exposed(model, hook):
    """Return the number of messages that wait for a hook, as Prometheus gets it. Return None if there is no number."""
    families = text_string_to_metric_families(model.ask("GET", "/metrics").text)
    samples = [each for family in families for each in family.samples if each.name == "hinged_hook_waiting_messages"]
    return next((each.value for each in samples if each.labels == {"model": model.name, "hook": hook["id"]}), None)


def positions(receiver):
    return [told["data"]["position"] for told in receiver.told()]


def test_a_receiver_gets_a_signed_message_after_each_event_of_its_kinds(model, receiver):
    first = mark(model)
    hook = add(model, receiver, "reconfigured", "finished", path="/weather?token=1")
    assert hook["position"] == first + 1
    assert hook["events"] == ["reconfigured", "finished"]
    model.learn(example([0, 1], "up"), example([1, 0], "down"))
    at = [mark(model), mark(model), model.finish()["position"]]
    bodies = receiver.wait_for(3)
    assert [(told["type"], told["data"]["position"]) for told in bodies] == [
        ("hinged.reconfigured", at[0]), ("hinged.reconfigured", at[1]), ("hinged.finished", at[2])
    ]  # fmt: skip
    assert {(told["data"]["model"], told["data"]["examples"]) for told in bodies} == {(model.name, 2)}
    assert all(told["data"]["at"] == told["timestamp"] for told in bodies)
    assert all(is_signed(headers, body, hook["secret"]) for headers, body in receiver.got)
    assert not is_signed(receiver.got[0][0], receiver.got[0][1] + b" ", hook["secret"])
    assert len(set(receiver.ids())) == 3
    (shown,) = listed(model)
    assert {name: shown[name] for name in ("id", "url", "error")} == {
        "id": hook["id"],
        "url": hook["url"],
        "error": None,
    }
    eventually(lambda: listed(model)[0]["waiting"] == 0)


@pytest.mark.long
def test_a_message_is_repeated_with_the_same_id_until_the_receiver_accepts_it_and_later_messages_wait(model, receiver):
    receiver.answers = [500] * 1000
    hook = add(model, receiver, "reconfigured")
    assert exposed(model, hook) == 0
    at = [mark(model)]
    eventually(lambda: listed(model)[0]["error"] == "the receiver answered 500")
    at.append(mark(model))
    receiver.wait_for(2)
    assert listed(model)[0]["waiting"] == exposed(model, hook) == 2
    receiver.answers = []
    eventually(lambda: at[1] in positions(receiver))
    *failed, last = positions(receiver)
    assert (set(failed), len(failed) >= 2, last) == ({at[0]}, True, at[1])
    assert len(set(receiver.ids()[:-1])) == 1
    eventually(lambda: listed(model)[0]["waiting"] == 0)
    assert listed(model)[0]["error"] is None


def test_a_receiver_that_hangs_delays_neither_learning_nor_another_hook(model, receiver):
    receiver.open.clear()
    add(model, receiver, "reconfigured")
    at = mark(model)
    receiver.wait_for(1)
    with Receiver() as other:
        refusal(model.ask("POST", f"{model.path}/hooks", json={"url": other.host, "events": ["drift"]}), 422, "invalid")
    model.learn(example([0, 1], "up"))  # the first call still has no answer
    add(model, receiver, "reconfigured")
    second = mark(model)
    eventually(lambda: sorted(positions(receiver)) == [at, second])
    model.learn(example([1, 0], "down"))
    assert [hook["waiting"] for hook in listed(model)] == [2, 1]
    receiver.open.set()
    receiver.wait_for(3)
    assert sorted(positions(receiver)) == [at, second, second]


def test_a_removed_hook_is_called_no_more(model, receiver):
    first, second = add(model, receiver, "reconfigured"), add(model, receiver, "reconfigured")
    answer = model.ask("DELETE", f"{model.path}/hooks/{first['id']}")
    assert answer.json() == {"model": model.name, "position": 4, "id": first["id"], "deleted": True}
    refusal(model.ask("DELETE", f"{model.path}/hooks/{first['id']}"), 404, "not_found")
    at = [mark(model), mark(model)]
    receiver.wait_for(2)
    assert positions(receiver) == at
    assert all(is_signed(headers, body, second["secret"]) for headers, body in receiver.got)
    assert [hook["id"] for hook in listed(model)] == [second["id"]]
    assert exposed(model, first) is None


def test_a_rollback_and_an_import_keep_the_hooks(model, receiver):
    gone = add(model, receiver, "rolled_back", path="/gone")
    model.ask("DELETE", f"{model.path}/hooks/{gone['id']}")
    stays = add(model, receiver, "rolled_back", "reconfigured")
    answer = model.ask("POST", f"{model.path}/rollback", json={"position": 2})
    receiver.wait_for(1)
    assert positions(receiver) == [answer.json()["position"]]
    assert [hook["id"] for hook in listed(model)] == [stays["id"]]
    exported = model.ask("GET", f"{model.path}/export").content
    assert stays["secret"].encode() not in exported
    model.ask("DELETE", model.path)
    receiver.got.clear()
    headers = {"content-type": "application/octet-stream"}
    assert model.ask("POST", f"{model.path}/import", content=exported, headers=headers).status_code == 201
    at = mark(model)
    receiver.wait_for(1)
    assert positions(receiver) == [at]
    assert is_signed(*receiver.got[0], stays["secret"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"url": "https://a.example/", "events": ["drift"]}, "HINGED_HOOKS_HOSTS does not list https://a.example"),
        ({"url": "http://u:p@127.0.0.1/", "events": ["drift"]}, "without user, password"),
        ({"url": "https://a.example/", "events": ["drifts"]}, "'drift', 'alarm', 'input_alarm', 'finished'"),
        ({"url": "https://a.example/", "events": []}, "events: "),
        ({"url": "https://a.example/"}, "events is missing"),
        ({"events": ["drift"]}, "url is missing"),
        ({"url": "https://a.example/", "events": ["drift"], "secret": "x"}, "unknown part 'secret'"),
        ({"url": "x" * 3000, "events": ["drift"]}, "url: "),
    ],
)
def test_a_bad_hook_is_refused_with_one_error_and_changes_nothing(model, body, said):
    before = model.figures()["position"]
    assert said in refusal(model.ask("POST", f"{model.path}/hooks", json=body), 422, "invalid")["message"]
    assert (model.figures()["position"], listed(model)) == (before, [])


def test_a_model_has_at_most_so_many_hooks(model, receiver):
    for _ in range(16):
        add(model, receiver, "drift")
    answer = model.ask("POST", f"{model.path}/hooks", json={"url": receiver.host, "events": ["drift"]})
    assert refusal(answer, 409, "conflict")["message"] == "a model may have at most 16 hooks"
    assert len(listed(model)) == 16


def test_no_answer_event_or_line_of_the_log_has_a_secret(ask, model, receiver):
    receiver.answers = [500]
    hook = add(model, receiver, "reconfigured", path="/?token=of-the-receiver")
    mark(model)
    receiver.wait_for(2)
    events = []
    with Client(ask.url) as client:
        for event in client.events(model.name, after=0):
            events.append(event)
            if event["kind"] == "reconfigured":
                break
    assert [event["kind"] for event in events] == ["created", "hook_added", "reconfigured"]
    listing = ask("GET", f"{model.path}/hooks").text
    said = [json.dumps(events), ask("GET", "/metrics").text, ask("GET", "/overview").text, ask("GET", model.path).text]
    assert "token=of-the-receiver" in listing  # only an admin may list hooks
    assert not any("of-the-receiver" in text for text in said)
    eventually(lambda: "the receiver answered 500" in ask.log.read_text())
    log = ask.log.read_text()
    assert "of-the-receiver" not in log
    for text in (*said, listing, log):
        assert SECRET not in text
        assert hook["secret"] not in text


def test_the_client_adds_lists_and_removes_hooks(ask, model, receiver):
    with Client(ask.url) as client:
        hook = client.add_hook(model.name, receiver.host, events=["drift"])
        assert [found["id"] for found in client.hooks(model.name)["hooks"]] == [hook["id"]]
        assert client.remove_hook(model.name, hook["id"])["deleted"]
        assert client.hooks(model.name)["hooks"] == []


@pytest.mark.long
def test_only_an_owner_delivers_and_a_kill_loses_nothing(tmp_path):
    """Kill a server with a follower between an event and its delivery, and stop it after the delivery."""
    with Receiver() as receiver:
        _deliver_once(tmp_path, receiver)


def _deliver_once(tmp_path, receiver):
    keys = tmp_path / "keys.json"
    heads = {role: bearer(create_key(keys, role, role)) for role in ("admin", "writer")}
    options = {"processes": 1, "followers": 1, "keys_file": keys, "hooks_hosts": receiver.host, "hooks_secret": SECRET}
    server = RunningServer(tmp_path / "data", limits=LIMITS, **options)

    def waiting(ask):
        return ask("GET", "/models/m/hooks", headers=heads["admin"]).json()["hooks"][0]["waiting"]

    with server, Asking(server.url) as ask:
        assert ask("PUT", "/models/m", json=BASE, headers=heads["admin"]).status_code == 201
        path, body = "/models/m/hooks", {"url": receiver.host, "events": ["reconfigured"]}
        for method, place, told in (("POST", path, body), ("GET", path, None), ("DELETE", f"{path}/x", None)):
            refusal(ask(method, place, json=told, headers=heads["writer"]), 403, "forbidden")
        hook = ask("POST", path, json=body, headers=heads["admin"]).json()

        receiver.open.clear()
        at = []
        for size in (11, 12):
            answer = ask("PATCH", "/models/m", json={"labels": {"pool_max": size}}, headers=heads["admin"])
            at.append(answer.json()["position"])
        receiver.wait_for(1)  # it never answers
        assert waiting(ask) == 2
        server.kill_all()
    before, receiver.got[:] = receiver.ids()[0], []
    receiver.open.set()
    with server, Asking(server.url) as ask:
        receiver.wait_for(2)
        assert positions(receiver) == at
        assert receiver.ids()[0] == before
        assert all(is_signed(headers, told, hook["secret"]) for headers, told in receiver.got)
        eventually(lambda: waiting(ask) == 0)
        server.terminate()
    assert positions(receiver) == at
    receiver.got.clear()
    with server, Asking(server.url) as ask:
        answer = ask("PATCH", "/models/m", json={"labels": {"pool_max": 13}}, headers=heads["admin"])
        receiver.wait_for(1)
        server.terminate()
    assert positions(receiver) == [answer.json()["position"]]


@pytest.mark.long
def test_without_a_secret_hooks_are_refused_and_hooks_of_the_log_wait(tmp_path):
    with Receiver() as receiver:
        _wait_for_secret(tmp_path, receiver)


def _wait_for_secret(tmp_path, receiver):
    receiver.answers = [500] * 1000
    server = RunningServer(tmp_path / "data", hooks_hosts=receiver.host, hooks_secret=SECRET)
    with server, Asking(server.url) as ask:
        model = ask.new_model("m")
        add(model, receiver, "reconfigured")
        at = mark(model)
        receiver.wait_for(1)
        server.terminate()
    receiver.got.clear()
    del server.env["HINGED_HOOKS_SECRET"]
    with server, Asking(server.url) as ask:
        answer = ask("POST", "/models/m/hooks", json={"url": receiver.host, "events": ["drift"]})
        assert "HINGED_HOOKS_SECRET" in refusal(answer, 409, "conflict")["message"]
        (hook,) = ask("GET", "/models/m/hooks").json()["hooks"]
        assert (hook["waiting"], hook["error"]) == (1, "HINGED_HOOKS_SECRET is not set")
        server.terminate()
    assert receiver.got == []
    receiver.answers = []
    server.env["HINGED_HOOKS_SECRET"] = SECRET
    with server:
        receiver.wait_for(1)
        assert positions(receiver) == [at]
