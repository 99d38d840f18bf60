"""Every solver as a model: created by name, learned, restarted, and what its configuration may say."""

import json
import math

import pytest
from asking import AskedModel, Asking, example, refusal
from running import RunningServer

from service.configuration import KINDS, SOLVER_NAMES, parse_configuration
from service.settings import Settings
from solvers.catalogue import SOLVERS

names = pytest.mark.parametrize("name", SOLVER_NAMES)
STREAM = [example([math.sin(k), math.cos(2 * k)], "ab"[k % 2], f"e{k}") for k in range(60)]
BODY = {"kernel": {"type": "rbf", "gamma": 1.0}, "features": {"type": "dense", "dim": 2}}


def body(name, **changes):
    precision = {"precision": "float64"} if name == "exact" else {}
    return BODY | {"solver": name} | precision | changes


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("solvers") / "data", snapshot_examples=20) as running:
        yield running


@pytest.fixture(scope="module")
def ask(server):
    with Asking(server.url) as asking:
        yield asking


def test_the_names_are_those_of_the_catalogue():
    assert set(SOLVER_NAMES) == set(SOLVERS)


@names
def test_defaults_of_the_configuration_are_those_of_the_solver(name):
    configuration = parse_configuration(json.dumps(body(name)), Settings())
    made = SOLVERS[name].make(
        configuration.kernel.build(), 2, points_max=configuration.points_max,
        **{"dtype": configuration.dtype, **SOLVERS[name].fixed},
    )  # fmt: skip
    built = configuration.build_solver(cache_bytes=made.cache_bytes)
    for attribute, value in vars(made).items():
        if isinstance(value, (int, float, str, type(None))) or attribute == "parameters":
            assert getattr(built, attribute) == value, attribute


def test_all_models_are_the_same_after_a_restart(server, ask):
    models = {}
    for name in SOLVER_NAMES:
        models[name] = AskedModel(ask, f"by-{name}".replace("+", "p"))
        assert ask("PUT", models[name].path, json=body(name)).status_code == 201
        models[name].learn(*STREAM[:30])
        models[name].learn(*STREAM[30:45])
        models[name].finish()
        models[name].learn(*STREAM[45:])
    before = {name: (m.figures()["support_vectors"], m.predict([0, 1], [1, 1])) for name, m in models.items()}
    server.terminate()
    server.start()
    after = {name: (m.figures()["support_vectors"], m.predict([0, 1], [1, 1])) for name, m in models.items()}
    assert after == before
    for name, model in models.items():
        assert model.figures()["configuration"]["solver"] == name
        assert all(r["duplicate"] for r in model.learn(*STREAM))


@names
def test_a_part_that_another_solver_has_is_refused(name):
    own = set(parse_configuration(json.dumps(body(name)), Settings()).model_dump())
    foreign = next(p for kind in KINDS for p in kind.model_fields if p not in own)
    with pytest.raises(Exception, match=f"configuration: {foreign}: Extra inputs are not permitted"):
        parse_configuration(json.dumps(body(name, **{foreign: 1})), Settings())


def test_an_unknown_solver_is_refused_with_those_that_there_are(ask):
    error = refusal(ask("PUT", "/models/unknown", json=body("lasvm", solver="magic")), 422, "invalid")
    assert error["message"].startswith("configuration: solver: must be one of smo, lasvm")
    assert error["message"].endswith("got 'magic'")
