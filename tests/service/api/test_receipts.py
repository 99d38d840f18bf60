"""Receipts of a real server: heads, proofs, kill -9, and forgetting."""

import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from hinged.client import Client, HingedError
from hinged.commands.receipts import folded
from hinged.service.model.events.receipts import EventsSealed
from tests.faults.recorded_disk import on_disk
from tests.faults.tampering import Evidence, write_key
from tests.helpers.server import RunningServer, eventually

MODEL = {"kernel": {"type": "rbf", "gamma": 1.0}, "features": {"type": "dense", "dim": 2}}


@pytest.fixture
def server(tmp_path):
    key = write_key(tmp_path / "key.pem")
    with RunningServer(tmp_path / "data", receipt_key=tmp_path / "key.pem", snapshot_examples=50) as server:
        server.key = key
        yield server


@pytest.fixture
def client(server):
    with Client(server.url) as client:
        yield client


def create(client, name="m", solver="lasvm", **parts):
    client.create_model(name, solver=solver, **MODEL, **{"receipts": True, **parts})
    eventually(lambda: client.model(name)["state"] == "serving")


def example(rng, given=None):
    return {"x": [rng.gauss(0, 1), rng.gauss(0, 1)], "y": rng.choice("ab")} | ({"id": given} if given else {})


def check(client, server, name, answers, folder):
    """Verify an export of now against answers, in both steps."""
    evidence = Evidence(client.export_model(name, log=True), answers, server.key)
    evidence.verify(folder)
    assert "is the fold of the log" in folded(folder / "export")
    return evidence


def test_without_receipts_nothing_is_sealed_and_there_is_nothing_to_prove(client):
    create(client, receipts=False)
    answer = client.learn("m", [example(random.Random(0))])
    assert answer["position"] == 3  # created, class_added, learned
    assert "receipts" not in answer
    for ask in (lambda: client.head("m"), lambda: client.proofs("m", position=1)):
        with pytest.raises(HingedError) as refused:
            ask()
        assert refused.value.status == 409


def test_an_answer_has_one_receipt_for_each_event_that_contains_its_examples(client, server, tmp_path):
    create(client)
    rng = random.Random(1)
    answers = [client.learn("m", [example(rng, f"e{k}") | {"y": "abc"[k % 3]} for k in range(6)])]
    assert [receipt["kind"] for receipt in answers[0]["receipts"]] == ["learned"] * 3
    answers.append(client.learn("m", [example(rng), example(rng)]))
    assert len(answers[1]["receipts"]) == 1
    assert answers[1]["receipts"][0]["head"]["size"] == answers[1]["receipts"][0]["index"] + 1
    answers.append(client.correct("m", "e1", "a"))
    assert [receipt["kind"] for receipt in answers[2]["receipts"]] == ["corrected"]
    client.wait(answers[2])
    answers.append(client.forget("m", "e2"))
    assert [receipt["kind"] for receipt in answers[3]["receipts"]] == ["forgotten"]
    client.wait(answers[3])
    check(client, server, "m", answers, tmp_path)


def test_every_event_has_a_proof_and_every_two_heads_are_consistent(client, server, tmp_path):
    create(client)
    rng = random.Random(2)
    answers = [client.learn("m", [example(rng, f"e{k}")]) for k in range(9)]
    head = client.head("m")
    seals = {answer["receipts"][0]["position"] + 1 for answer in answers}
    for position in range(1, head["position"] + 1):
        if position in seals:
            with pytest.raises(HingedError) as refused:
                client.proofs("m", position=position)
            assert refused.value.status == 404
        else:
            answers.append(client.proofs("m", position=position))
    assert client.proofs("m", example="e4")["receipts"][0]["position"] == answers[4]["receipts"][0]["position"]
    sizes = [answer["receipts"][0]["head"]["size"] for answer in answers[:9]]
    answers += [client.proofs("m", first=a, second=b) for a, b in itertools.combinations_with_replacement(sizes, 2)]
    check(client, server, "m", answers, tmp_path)
    for wrong in ({}, {"position": 1, "example": "e1"}, {"first": 99}, {"second": 2}, {"first": 5, "second": 4}):
        with pytest.raises(HingedError) as refused:
            client.proofs("m", **wrong)
        assert refused.value.status == 422
    with pytest.raises(HingedError) as refused:
        client.proofs("m", example="unknown")
    assert refused.value.status == 404


def test_a_log_is_exported_only_with_the_newest_state(client):
    create(client)
    client.learn("m", [example(random.Random(5))])
    with pytest.raises(HingedError, match="newest state, got as_of=2"):
        client.export_model("m", as_of=2, log=True)


def test_a_rollback_an_import_and_a_pause_of_receipts(client, server, tmp_path):
    create(client)
    rng = random.Random(3)
    answers = [client.learn("m", [example(rng, f"e{k}")]) for k in range(6)]
    client.rollback("m", answers[2]["position"])
    answers.append(client.learn("m", [example(rng, "after")]))
    assert answers[-1]["receipts"][0]["index"] > answers[-2]["receipts"][0]["index"]
    check(client, server, "m", answers, tmp_path)
    client.import_model("other", client.export_model("m"))
    eventually(lambda: client.model("other")["state"] == "serving")
    copied = [client.learn("other", [example(rng, "there")])]
    assert copied[0]["receipts"][0]["head"]["origin"].startswith("hinged/other/")
    check(client, server, "other", copied, tmp_path)
    client.change_model("m", receipts=False)
    assert "receipts" not in client.learn("m", [example(rng, "unproved")])
    check(client, server, "m", answers, tmp_path)  # the newest event has no seal, as the configuration says
    client.change_model("m", receipts=True)
    answers.append(client.learn("m", [example(rng, "proved")]))
    check(client, server, "m", answers, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["exact", "lasvm"])
def test_what_was_acknowledged_has_a_receipt_that_holds_after_each_kill(client, server, tmp_path, solver):
    create(client, solver=solver)
    answers, lock, heads = [], threading.Lock(), []

    def send(number, until):
        rng = random.Random(f"{number} {until}")
        with Client(server.url, tries_max=1) as own:
            for k in itertools.count():
                if time.monotonic() > until:
                    return
                with suppress(HingedError):
                    answer = own.learn(
                        "m", [example(rng, f"{number}-{until}-{k}-{i}") for i in range(rng.choice([1, 3]))]
                    )
                    with lock:
                        answers.append(answer)

    for _ in range(3):
        until = time.monotonic() + 1.5
        with ThreadPoolExecutor(4) as threads:
            sending = [threads.submit(send, number, until) for number in range(3)]
            time.sleep(random.uniform(0.3, 1.2))
            server.kill()
            for each in sending:
                each.result()
        server.start()
        eventually(lambda: client.model("m")["state"] == "serving")
        heads.append(client.head("m"))
        check(client, server, "m", [*answers, *heads], tmp_path)
    assert len(answers) > 20


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_a_forgotten_example_leaves_neither_bytes_nor_salt_on_the_disk(client, server, tmp_path, killed):
    create(client)
    rng = random.Random(4)
    answers = [client.learn("m", [example(rng, f"marked-{k}-{i}") for i in range(2)]) for k in range(12)]
    before = Evidence(client.export_model("m", log=True), [], server.key)
    position = answers[5]["receipts"][0]["position"]
    seal = next(
        found
        for found in (EventsSealed.decoded(data) for _, kind, data in before.events if kind == EventsSealed.KIND)
        if found.first <= position < found.first + len(found.kinds)
    )
    salt, commitment = seal.salts[position - seal.first], seal.commitments[position - seal.first]
    assert any(salt in data for data in on_disk(tmp_path / "data").values())
    if killed:
        with suppress(HingedError), Client(server.url, tries_max=1) as own, ThreadPoolExecutor(1) as thread:
            forgetting = thread.submit(own.forget, "m", "marked-5-0")
            time.sleep(random.uniform(0, 0.1))
            server.kill()
            forgetting.result()
        server.start()
        eventually(lambda: client.model("m")["state"] == "serving")
    answers.append(client.forget("m", "marked-5-0"))
    client.wait(answers[-1])
    eventually(lambda: not client.model("m")["jobs"])
    files = on_disk(tmp_path / "data").values()
    assert not any(salt in data or b"marked-5-0" in data for data in files)
    assert any(commitment in data for data in files)
    after = check(client, server, "m", [a for a in answers if "receipts" in a], tmp_path)
    payload = next(data for at, _, data in after.events if at == position)
    assert b"marked-5-1" in payload  # the rest of the batch
    assert answers[5]["receipts"][0]["digest"] == commitment.hex()
