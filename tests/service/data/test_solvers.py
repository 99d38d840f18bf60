"""Every solver as a model: create it by name, train it, restart it, and check what its configuration allows."""

import json
import math

import pytest

from hinged.service.data.configuration import parse_configuration
from hinged.service.data.parameters import CONFIGURATION_OF, SOLVER_NAMES
from hinged.service.settings import Settings
from hinged.solvers.catalogue import SOLVERS
from tests.helpers.http_client import AskedModel, Asking, example, refusal
from tests.helpers.server import RunningServer

names = pytest.mark.parametrize("name", SOLVER_NAMES)
STREAM = [example([math.sin(k), math.cos(2 * k)], "ab"[k % 2], f"e{k}") for k in range(60)]
BODY = {"kernel": {"type": "rbf", "gamma": 1.0}, "features": {"type": "dense", "dim": 2}}


def body(name, **changes):
    precision = {"precision": "float64"} if name == "exact" else {}
    return BODY | {"solver": name} | precision | changes


# Parts that a model may ask for in addition to its solver's name, and that lead to different computations.
VARIANTS = {
    "lasvm-second-order": ("lasvm", {"second_order": True, "delta_max": 3.0}),
    **{
        f"{s}-{m}": (s, {"maintenance": m, "budget": 10})
        for s in ("bsca", "bsgd")
        for m in ("merge", "remove", "project")
    },
    "bsca-golden": ("bsca", {"merging": "golden", "budget": 10, "extra_steps": 2}),
    "bsca-plain": ("bsca", {"step_max": None, "averaging": None, "budget": 10}),
    "bsgd-plain": ("bsgd", {"averaging": None, "regularization": 0.01, "budget": 10}),
}
MODELS = {**{name.replace("+", "p"): (name, {}) for name in SOLVER_NAMES}, **VARIANTS}


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
def test_defaults_of_the_configuration_equal_the_solvers(name):
    configuration = parse_configuration(json.dumps(body(name)), Settings())
    made = SOLVERS[name].make(
        configuration.kernel.build(), 2, points_max=configuration.points_max, when_full=configuration.when_full,
        **{"dtype": configuration.dtype, **SOLVERS[name].fixed},
    )  # fmt: skip
    built = configuration.build_solver(cache_bytes=made.cache_bytes)
    for attribute, value in vars(made).items():
        if isinstance(value, (int, float, str, type(None))) or attribute == "parameters":
            assert getattr(built, attribute) == value, attribute


@pytest.mark.long
def test_all_models_are_the_same_after_a_restart_and_after_kill_9(server, ask):
    models = {}
    for key, (name, parameters) in MODELS.items():
        models[key] = AskedModel(ask, f"by-{key}")
        assert ask("PUT", models[key].path, json=body(name, **parameters)).status_code == 201
        models[key].learn(*STREAM[:30])
        models[key].learn(*STREAM[30:45])
        models[key].finish()
        models[key].learn(*STREAM[45:])

    def answers():
        return {key: (m.figures()["support_vectors"], m.predict([0, 1], [1, 1])) for key, m in models.items()}

    before = answers()
    server.kill()  # the newest snapshots, and the log after them
    server.start()
    assert answers() == before
    server.terminate()
    server.start()
    assert answers() == before
    for key, model in models.items():
        assert model.figures()["configuration"]["solver"] == MODELS[key][0]
        assert all(r["duplicate"] for r in model.learn(*STREAM))


@names
def test_a_part_that_another_solver_has_is_refused(name):
    own = set(parse_configuration(json.dumps(body(name)), Settings()).model_dump())
    foreign = next(p for kind in CONFIGURATION_OF.values() for p in kind.model_fields if p not in own)
    with pytest.raises(Exception, match=f"configuration: unknown part '{foreign}'"):
        parse_configuration(json.dumps(body(name, **{foreign: 1})), Settings())


def test_an_unknown_solver_is_refused_with_a_list_of_solvers(ask):
    error = refusal(ask("PUT", "/models/unknown", json=body("lasvm", solver="magic")), 422, "invalid")
    assert error["message"].startswith("configuration: solver: must be one of auto, smo, lasvm")
    assert error["message"].endswith('got "magic"')
