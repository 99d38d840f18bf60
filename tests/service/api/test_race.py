"""A model with a race, over HTTP: its description, the solver of a model whose body names no solver, and how to keep
the winner.
"""

import math
import random

import pytest

from tests.helpers.http_client import AskedModel, Asking, example, refusal
from tests.helpers.server import RunningServer, eventually

FEATURES = {"type": "dense", "dim": 2, "scale": None, "warmup": 100}
RACE = {"kernel": {"type": "rbf"}, "features": FEATURES}


def wavy(count, seed=0):
    rng = random.Random(seed)
    xs = [[rng.uniform(-3, 3), rng.uniform(-3, 3)] for _ in range(count)]
    return [
        example(x, "in" if math.sin(3 * x[0]) + math.cos(3 * x[1]) > 0 else "out", f"e{k}") for k, x in enumerate(xs)
    ]


EXAMPLES = wavy(1500)


def created(ask, name, body):
    answer = ask("PUT", f"/models/{name}", json=body)
    assert answer.status_code in {200, 201}, answer.text
    return AskedModel(ask, name), answer.json()["configuration"]


def teach(model):
    for begin in range(0, len(EXAMPLES), 100):
        model.learn(*EXAMPLES[begin : begin + 100])


@pytest.fixture(scope="module")
def raced(ask):
    model, _ = created(ask, "raced", RACE)
    teach(model)
    return model


def test_the_description_lists_the_arms_and_the_leader(raced):
    figures = raced.figures()
    arms = figures["arms"]
    assert figures["configuration"]["solver"] == "auto"
    assert 3 <= len(arms) <= 4
    assert sum(arm["leads"] for arm in arms) == 1
    leader = next(arm for arm in arms if arm["leads"])
    assert leader["points"] == figures["points"]
    assert {arm["solver"] for arm in arms} <= {"lasvm", "lasvm-nc"}
    assert (leader["C"], leader["gamma"]) != (1.0, figures["features"]["gamma"])
    assert 0.8 < leader["accuracy"] <= 1
    assert all(0 <= arm["accuracy"] <= leader["accuracy"] + 0.01 for arm in arms)
    assert any(arm["half_life"] for arm in arms)
    assert sum(arm["share"] for arm in arms) == pytest.approx(1)
    assert leader["share"] > 0


def test_overview_and_curves_have_the_leaders_points(ask):
    model, _ = created(ask, "parted", RACE)
    draw = random.Random(0)
    for k in range(12):
        xs = [[draw.random(), draw.random()] for _ in range(100)]
        model.learn(*({"x": x, "y": int((x[0] + x[1] > 1) ^ (k > 5))} for x in xs))
    figures = model.figures()
    assert next(arm for arm in figures["arms"] if arm["leads"])["half_life"]  # so it has fewer points than other arms
    history = ask("GET", f"{model.path}/history").json()
    assert figures["points"] < max(arm["points"] for arm in figures["arms"])
    assert history["curve"]["points"][-1] == figures["points"]
    assert ask("POST", f"{model.path}/finish").status_code == 200
    (found,) = [each for each in ask("GET", "/overview").json()["models"] if each["model"] == model.name]
    finished = model.figures()
    assert finished["points"] < max(arm["points"] for arm in finished["arms"])
    assert found["points"] == finished["points"]


def test_one_patch_makes_a_model_of_the_leader(ask, raced):
    leader = next(arm for arm in raced.figures()["arms"] if arm["leads"])
    model, _ = created(ask, "kept", RACE)
    teach(model)
    change = {
        "solver": leader["solver"],
        "C": leader["C"],
        "kernel": {"type": leader["kernel"], "gamma": leader["gamma"]},
    }
    answer = ask("PATCH", model.path, json=change)
    assert answer.status_code in {200, 202}, answer.text
    eventually(lambda: model.figures()["configuration"]["solver"] == leader["solver"])
    figures = model.figures()
    assert (figures["configuration"]["C"], figures["configuration"]["kernel"]["gamma"]) == (
        leader["C"],
        leader["gamma"],
    )
    assert "arms" not in figures
    xs = [given["x"] for given in wavy(200, seed=1)]
    truth = [given["y"] for given in wavy(200, seed=1)]
    assert sum(found["prediction"] == y for found, y in zip(model.predict(*xs), truth, strict=True)) > 170


@pytest.mark.parametrize(
    ("said", "solver"),
    [
        ({}, "auto"),
        ({"kernel": {"type": "linear"}}, "auto"),
        ({"kernel": {"type": "laplacian", "gamma": "scale"}}, "auto"),
        ({"half_life": {"examples": 100}}, "auto"),
        ({"C": 1.0}, "lasvm"),
        ({"tol": 0.01}, "lasvm"),
        ({"kernel": {"type": "rbf", "gamma": 0.5}}, "lasvm"),
        ({"solver": "bsca"}, "bsca"),
    ],
)
def test_a_body_without_a_solver_gets_a_race_unless_it_sets_what_a_race_finds(ask, said, solver):
    features = FEATURES if "kernel" not in said else {"type": "dense", "dim": 2, "scale": None}
    body = RACE | {"features": features} | said
    if said.get("kernel", {}).get("type") == "laplacian":
        body["features"] = FEATURES
    model, configuration = created(ask, f"said{abs(hash(str(said)))}", body)
    assert configuration["solver"] == solver
    model.learn(*EXAMPLES[:30])
    assert ("arms" in model.figures()) == (solver == "auto")


def test_a_race_takes_no_C(ask):
    error = refusal(ask("PUT", "/models/odd", json=RACE | {"solver": "auto", "C": 3}), 422, "invalid")
    assert "C" in error["message"]


def test_a_body_without_a_solver_matches_a_model_made_before_races_existed(ask):
    _, made = created(ask, "former", RACE | {"solver": "lasvm"})
    again = ask("PUT", "/models/former", json=RACE)
    assert (again.status_code, again.json()["configuration"]) == (200, made)
    refusal(ask("PUT", "/models/former", json=RACE | {"solver": "auto"}), 409, "conflict")


@pytest.mark.long
def test_a_race_continues_to_the_bit_after_a_kill_and_forgets_in_every_arm(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        model, _ = created(ask, "m", RACE)
        teach(model)
        xs = [given["x"] for given in EXAMPLES[:50]]
        before, predicted = model.figures(), model.predict(*xs)
        server.kill()
        server.start()
        after = model.figures()
        assert (after["arms"], after["certificate"]) == (before["arms"], before["certificate"])
        assert model.predict(*xs) == predicted
        gone = EXAMPLES[0]["id"]
        answer = ask("DELETE", f"{model.path}/examples/{gone}")
        assert answer.status_code in {200, 202}, answer.text
        eventually(lambda: ask("GET", f"{model.path}/examples/{gone}").status_code in {404, 410})
        model.learn(example([0.1, 0.2], "in", "more"))


@pytest.mark.long
def test_late_labels_count_the_same_whether_or_not_the_server_was_killed_while_they_were_awaited(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        figures = []
        for name in ("killed", "spared"):
            model, _ = created(ask, name, RACE | {"labels": {"pending_durable": True}})
            model.learn(*EXAMPLES[:300])
            for begin in (300, 400):
                asked = [{"id": given["id"], "x": given["x"]} for given in EXAMPLES[begin : begin + 100]]
                assert ask("POST", f"{model.path}/predict", json={"examples": asked}).status_code == 200
                model.learn(*({"x": given["x"], "y": given["y"]} for given in EXAMPLES[begin + 400 : begin + 500]))
                if name == "killed":
                    server.kill()
                    server.start()
            model.learn(*({"id": given["id"], "y": given["y"]} for given in EXAMPLES[300:500]))
            figures.append(model.figures())
        killed, spared = figures
        assert (killed["arms"], killed["certificate"]) == (spared["arms"], spared["certificate"])
        assert killed["pending"] == 0
        plain, _ = created(ask, "plain", RACE)
        plain.learn(*EXAMPLES[:300], *EXAMPLES[700:900], *EXAMPLES[300:500])
        assert plain.figures()["arms"] != spared["arms"]
