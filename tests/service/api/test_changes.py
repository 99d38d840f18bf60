"""Changes of a model over HTTP."""

import pytest

from hinged import Client
from hinged.service.commands.change import Forget
from hinged.service.engine.history import ModelHistory
from hinged.service.errors import Conflict
from tests.helpers.changes import changed, until_ended
from tests.helpers.http_client import example, refusal
from tests.helpers.worker import SIZES, examples_of, learning, with_worker


def test_changes_over_http_have_the_documented_shapes(ask):
    model = ask.new_model()
    model.learn(*(example([k / 9, k % 3], "ab"[k % 2], f"e{k}") for k in range(30)))
    answer = ask("PUT", f"{model.path}/examples/e3", json={"y": "a"})
    assert answer.status_code == 202
    job = until_ended(ask, answer.json()["job"])
    assert (job["state"], job["progress"]) == ("done", 1.0)
    assert job["certificate"]["points"] > 0
    answer = ask("PATCH", model.path, json={"C": 2})
    assert answer.status_code == 202
    assert until_ended(ask, answer.json()["job"])["state"] == "done"
    assert model.figures()["configuration"]["C"] == 2
    assert ask("PATCH", model.path, json={"C": 2}).status_code == 200
    found = ask("GET", f"{model.path}/certificate").json()
    assert found["certificate"]["gap"] >= 0
    refusal(ask("GET", f"{model.path}/loo"), 409, "conflict")
    refusal(ask("DELETE", f"{model.path}/examples/nobody"), 404, "not_found")
    refusal(ask("PUT", f"{model.path}/examples/nobody", json={"y": "a"}), 404, "not_found")
    refusal(ask("PUT", f"{model.path}/examples/e3", json={"y": 1.5}), 422, "invalid")
    refusal(ask("PATCH", model.path, json=[1]), 422, "invalid")
    for job in ("/jobs/none", f"/jobs/{model.name}.1", "/jobs/nobody.3"):
        refusal(ask("GET", job), 404, "not_found")
    answer = ask("PUT", f"{model.path}/shadows/s", json={"C": 9})
    assert answer.status_code == 202
    assert until_ended(ask, answer.json()["job"])["state"] == "done"
    model.learn(example([1, 1], "a"))
    shadows = ask("GET", f"{model.path}/shadows").json()
    assert shadows["shadows"]["s"]["examples"] == 31
    assert shadows["shadows"]["s"]["metrics"]["predicted"] == shadows["champion"]["metrics"]["predicted"] == 30
    assert shadows["shadows"]["s"]["compared"]["examples"] == 30
    assert ask("POST", f"{model.path}/shadows/s/promote").status_code == 200
    assert model.figures()["configuration"]["C"] == 9
    refusal(ask("DELETE", f"{model.path}/shadows/s"), 404, "not_found")


def test_a_mark_says_which_settings_changed(ask, server):
    with Client(server.url) as client:
        model = ask.new_model()
        model.learn(*(example([k / 9, k % 3], "ab"[k % 2], f"e{k}") for k in range(30)))
        client.change_model(model.name, costs={"a": {"b": 5}, "ask": 1}, receipts=True)
        client.wait(client.change_model(model.name, C=2, points_max=50))
        client.wait(client.challenge(model.name, "s", solver="smo"))
        client.promote(model.name, "s")
        client.wait(client.forget(model.name, "e3"))
        client.rollback(model.name, client.model(model.name)["position"] - 1)
        marks = client.history(model.name)["marks"]
    words = ["settings changed: costs, receipts", "retrained: points max, C", "challenger promoted: solver"]
    assert [mark["text"] for mark in marks] == [*words, "retrained", "taken back"]
    assert not any(mark["warns"] for mark in marks)


def test_leave_one_out_equals_training_without_each_example(ask):
    model = ask.new_model(solver="exact", C=1)
    points = [([k / 9, k % 3], "ab"[(k % 5) % 2]) for k in range(14)]
    model.learn(*(example(x, y) for x, y in points))
    found = ask("GET", f"{model.path}/loo").json()
    wrong = 0
    for k, (x, y) in enumerate(points):
        other = ask.new_model(solver="exact", C=1, classes=["a", "b"])
        other.learn(*(example(x, y) for j, (x, y) in enumerate(points) if j != k))
        wrong += other.predict(x)[0]["prediction"] != y
    assert (found["examples"], found["errors"]) == (14, wrong)


def test_a_state_of_an_older_format_is_refused_and_never_guessed():
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 9)))
        before = worker.model.position
        await changed(worker, Forget("@1"))
        with pytest.raises(Conflict, match="forgotten"):
            ModelHistory(store, "m", **SIZES).at(before)

    with_worker(scenario)
