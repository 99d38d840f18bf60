"""The capacity of decisions: how often the server asks or raises an alarm, over HTTP and over a kill."""

import threading

import pytest

from hinged import Client, HingedError
from tests.helpers.http_client import refusal
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import RunningServer

ALL = {"ask": {"most": 1_000_000, "per": "366d"}}


def payments(ask, **parts):
    """Return a model that has learned 500 payments."""
    model = ask.new_model(**BODY, costs=COSTS, **parts)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(500, share=0.1))
    return model


def told(n, seed, prefix="p"):
    return [{"id": f"{prefix}{k}", "x": x} for k, x in enumerate(stream(n, seed=seed, share=0.1)[0].tolist())]


def used_up(client, name):
    """Take some questions, then lower the capacity to as many. Return the questions' ids."""
    client.change_model(name, capacity=ALL)
    results = client.decide(name, told(100, 20, "first"))["results"]
    asked = [one["question"] for one in results if one["decision"] == "ask"]
    assert asked
    client.change_model(name, capacity={"ask": {"most": len(asked), "per": "366d"}})
    return asked


def test_a_capacity_turns_questions_into_the_next_best_decision(ask):
    model = payments(ask, capacity=ALL)
    with Client(ask.url) as client:
        results = {"free": client.decide(model.name, told(300, 2))["results"]}
        client.change_model(model.name, capacity={name: {"most": 1, "per": "366d"} for name in ("ask", "fraud")})
        results["limited"] = client.decide(model.name, told(300, 2, "again"), probabilities=True)["results"]
        figures = client.model(model.name)["capacity"]
    assert {one["reason"] for one in results["free"]} == {"cost"}
    turned = [k for k, one in enumerate(results["limited"]) if one["reason"] == "capacity"]
    assert len(turned) > 10
    for k, (free, limited) in enumerate(zip(results["free"], results["limited"], strict=True)):
        assert ("question" in limited) == (limited["decision"] == "ask")
        if k not in turned:
            assert (free["decision"], free["cost"]) == (limited["decision"], limited["cost"])
            continue
        assert free["decision"] in ("ask", "fraud")
        assert limited["decision"] != free["decision"]
        assert limited["cost"] >= free["cost"]
        if limited["decision"] != "ask":
            chances, decision = limited["probabilities"], limited["decision"]
            cost = sum(p * COSTS[t].get(decision, float(t != decision)) for t, p in chances.items())
            assert limited["cost"] == pytest.approx(cost)
            assert limited["probability"] == chances[decision]
    assert figures["ask"]["taken"] == sum(one["decision"] == "ask" for one in results["free"])  # none was left
    assert figures["fraud"]["taken"] == sum(one["decision"] == "fraud" for one in results["limited"]) <= 1


def test_threads_together_never_take_more_than_the_capacity(ask):
    model = payments(ask, capacity={"ask": {"most": 5, "per": "366d"}})
    counts = []

    def decide(thread):
        with Client(ask.url) as client:
            for k in range(40):
                results = client.decide(model.name, told(10, 1_000 * thread + k, f"t{thread}-{k}-"))["results"]
                counts.append(sum(one["decision"] == "ask" for one in results))

    threads = [threading.Thread(target=decide, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = model.figures()
    assert sum(counts) == figures["capacity"]["ask"]["taken"] == figures["pool"]["size"] <= 5
    assert figures["capacity"]["ask"]["refused"] > 50


def test_a_repeated_question_is_answered_again_without_being_counted_again(ask):
    model = payments(ask)
    with Client(ask.url) as client:
        asked = used_up(client, model.name)
        xs = {given: client.example(model.name, given)["x"] for given in asked}
        again = client.decide(model.name, [{"id": given, "x": xs[given]} for given in asked * 2])["results"]
        assert [(one["decision"], one["question"]) for one in again] == [("ask", given) for given in asked * 2]
        assert client.model(model.name)["capacity"]["ask"]["taken"] == len(asked)
        new = client.decide(model.name, told(200, 7, "new"))["results"]
        assert {one["decision"] for one in new} == {"ok", "fraud"}


def test_a_promise_wins_against_the_capacity_and_uses_it_up(ask):
    model = payments(ask, promise={"error": {"fraud": 0.01, "ok": 0.01}})
    with Client(ask.url) as client:
        used_up(client, model.name)
        results = client.decide(model.name, told(200, 8))["results"]
        promised = [one for one in results if one["reason"] == "promise"]
        assert promised
        assert all(one["decision"] == "ask" and len(one["set"]) != 1 for one in promised)
        assert all(one["decision"] != "ask" for one in results if one["reason"] != "promise")
        figures = client.model(model.name)["capacity"]["ask"]
        assert figures["taken"] == figures["most"] + len(promised)


def test_before_there_are_probabilities_questions_are_limited_too(ask):
    model = ask.new_model(**BODY, costs=COSTS, capacity={"ask": {"most": 2, "per": "366d"}})
    with Client(ask.url) as client:
        results = [client.decide(model.name, told(1, k, f"q{k}-"))["results"][0] for k in range(50)]
    asked = [one for one in results if one["decision"] == "ask"]
    assert len(asked) <= 2
    assert {(one["decision"], one["cost"], one["reason"]) for one in results} - {("ask", 2.0, "unknown")} == {
        (None, None, "capacity")
    }


def test_if_each_decision_is_used_up_there_is_none(ask):
    limits = {name: {"most": 1, "per": "366d"} for name in ("ask", "ok", "fraud")}
    model = payments(ask, capacity=limits)
    with Client(ask.url) as client:
        results = client.decide(model.name, told(100, 9))["results"]
    none = [one for one in results if one["decision"] is None]
    assert len(none) >= 97
    assert {(one["cost"], one["probability"], one["reason"]) for one in none} == {(None, None, "capacity")}


@pytest.mark.parametrize(
    ("capacity", "said"),
    [
        ({}, "capacity must be an object of decisions"),
        ({"ask": 40}, '"ask" must be an object such as {"most": 40, "per": "1d"}'),
        ({"ask": {"most": 40}}, '"ask" must be an object such as'),
        ({"ask": {"most": 40, "per": "1d", "from": 1}}, '"ask" must be an object such as'),
        ({"ask": {"most": 0, "per": "1d"}}, "most must be a whole number from 1 to 1000000"),
        ({"ask": {"most": 1.5, "per": "1d"}}, "most must be a whole number from 1 to 1000000"),
        ({"ask": {"most": True, "per": "1d"}}, "most must be a whole number from 1 to 1000000"),
        ({"ask": {"most": 1, "per": "1w"}}, "per must be a whole number of"),
        ({"ask": {"most": 1, "per": "0d"}}, "per must be a whole number of"),
        ({"ask": {"most": 1, "per": "367d"}}, "per must be a whole number of"),
        ({"ask": {"most": 1, "per": 60}}, "per must be a whole number of"),
        ({f"c{k}": {"most": 1, "per": "1d"} for k in range(9)}, "capacity must limit at most 8 decisions"),
    ],
)
def test_an_invalid_capacity_is_refused(ask, capacity, said):
    answer = ask("PUT", "/models/refused", json={**BODY, "costs": COSTS, "capacity": capacity})
    assert said in refusal(answer, 422, "invalid")["message"]


def test_a_capacity_must_fit_the_costs_and_the_classes(ask):
    one = {"most": 1, "per": "1d"}
    for parts, said in (
        ({"capacity": {"ask": one}}, "capacity needs costs"),
        ({"capacity": {"ask": one}, "costs": {"fraud": {"ok": 5}}}, 'the costs have no "ask"'),
        ({"capacity": {"a": one, "b": one}, "costs": COSTS, "classes": ["a", "b"]}, "at least one class without"),
    ):
        answer = ask("PUT", "/models/refused", json=BODY | parts)
        assert said in refusal(answer, 422, "invalid")["message"]
    model = ask.new_model(**BODY, costs=COSTS, capacity={"ask": one})
    refusal(ask("PATCH", model.path, json={"costs": None}), 422, "invalid")
    assert ask("PATCH", model.path, json={"costs": None, "capacity": None}).status_code == 200
    assert "capacity" not in model.figures()


def test_followers_learn_how_many_were_taken_and_refused(ask):
    model = payments(ask)
    with Client(ask.url) as client:
        used_up(client, model.name)
        client.decide(model.name, told(100, 21))
        end, counted = client.model(model.name)["position"], []
        for event in client.events(model.name, after=1):
            counted += [event] if event["kind"] == "rationed" else []
            if event["position"] == end:
                break
    figures = model.figures()["capacity"]["ask"]
    assert sum(event["taken"] for event in counted) == figures["taken"] > 0
    assert sum(event["refused"] for event in counted) == figures["refused"] > 0


def test_what_was_taken_survives_a_kill_and_a_rollback_gives_it_back(tmp_path):
    with RunningServer(tmp_path / "data") as server:
        with Client(server.url) as client:
            client.create_model("m", **BODY, costs=COSTS)
            client.learn_rows("m", *stream(500, share=0.1))
            client.change_model("m", capacity=ALL)
            before = client.model("m")
            used_up(client, "m")
            figures = client.model("m")["capacity"]
        server.kill()
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.wait_until_ready()
        assert client.model("m")["capacity"] == figures
        results = client.decide("m", told(100, 3, "later"))["results"]
        assert {one["decision"] for one in results} == {"ok", "fraud"}
        asked = client.candidates("m")["candidates"][0]["id"]
        x = client.example("m", asked)["x"]
        client.rollback("m", before["position"])
        assert client.model("m")["capacity"] == before["capacity"]
        client.offer("m", {"id": asked, "x": x})
        client.wait(client.forget("m", asked))
        with pytest.raises(HingedError, match="was forgotten"):
            client.decide("m", {"id": asked, "x": x})
