"""Files with a valid checksum and a state that no stream can produce."""

import json
from io import BytesIO

import httpx
import numpy as np
import pytest

from hinged.frames import decode, encode
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import to_inputs
from hinged.service.engine.creation import import_file
from hinged.service.engine.transfer.exports import pack_export, unpack_export
from hinged.service.errors import Invalid
from hinged.service.model import learner
from hinged.service.model.model import Model
from hinged.service.model.state import SNAPSHOT
from hinged.service.settings import Settings
from tests.helpers import models
from tests.helpers.imported_models import DENSE, KINDS, NOW, RBF, SIZES, take
from tests.helpers.server import RunningServer
from tests.helpers.states import digest_of


def put(facts, path, value):
    *inner, last = path
    for key in inner:
        facts = facts[key]
    facts[last] = value


def filled(value):
    return lambda array: np.full_like(array, value)


def times(factor):
    return lambda array: array * factor


def at(place, value):
    def change(array):
        changed = array.copy()
        changed.flat[place] = value
        return changed

    return change


SOLVER = "learner.solver."
METRICS = "learner.metrics."
HOLES = [
    # A drift detector of the library River, whose bytes the server does not read.
    ("lasvm", {METRICS + "drift.counts": at(2, 2**63 - 1)}, {}),
    ("lasvm", {METRICS + "drift.buckets": at(0, 2**62)}, {}),
    ("lasvm", {METRICS + "drift.counts": at(0, 2**40)}, {}),
    # Facts that must agree with the configuration.
    ("exact", {SOLVER + "C": filled(1e308)}, {}),
    ("exact", {SOLVER + "C": filled(2.0)}, {}),
    ("exact", {SOLVER + "C": filled(1e14), SOLVER + "lower": times(1e14), SOLVER + "upper": times(1e14)}, {}),
    ("exact", {SOLVER + "kernel": at(2, 4.0)}, {}),
    ("exact", {SOLVER + "kernel": at(1, 3.0)}, {}),
    ("lasvm", {SOLVER + "weights": times(2.0)}, {}),
    ("lasvm", {}, {("learner", "configuration", "C"): 2.0}),
    ("lasvm", {}, {("learner", "gamma"): 2.0}),
    ("named", {}, {("learner", "gamma"): 2.0}),
    # Counts that no stream can reach, and counts that contradict the data.
    *(
        ("lasvm", {SOLVER + name: filled(value)}, {})
        for name in ("seen", "learned", "steps")
        for value in (2**62, 2**63 - 1)
    ),
    *(("bsgd", {SOLVER + "counts": at(place, 2**63 - 1)}, {}) for place in range(4)),
    ("bsgd", {SOLVER + "upkeep_counts": filled(2**63 - 1)}, {}),
    ("lasvm", {SOLVER + "learned": filled(3)}, {}),
    ("lasvm", {METRICS + "counts": at(1, 2**63 - 1)}, {}),
    ("lasvm", {METRICS + "counts": at(1, 21)}, {}),
    ("lasvm", {METRICS + "all.seen": filled(2**63 - 1)}, {}),
    ("lasvm", {METRICS + "all.cells": filled(2**62)}, {}),
    ("lasvm", {METRICS + "all.seen": filled(18)}, {}),
    ("lasvm", {METRICS + "sigmoid.seen": filled(2**62)}, {}),
    ("lasvm", {METRICS + "sigmoid.due": filled(2**62)}, {}),
    ("lasvm", {METRICS + "sigmoid.fit": filled(1e308)}, {}),
    ("lasvm", {SOLVER + "key": filled(2**62)}, {}),
    ("lasvm", {SOLVER + "key": lambda array: array + 20}, {}),
    ("lasvm", {}, {("learned",): 2**53 - 1, ("answers", "newest"): 2**53 - 1}),
    ("lasvm", {}, {("corrections",): [[21, 0]]}),
    ("lasvm", {}, {("old_ids",): [[2**52, "old"]]}),
    ("lasvm", {}, {("pool", "answered"): 21}),
    ("lasvm", {}, {("learner", "stopped"): "it had no room"}),
    ("lasvm", {"learner.ages.dropped": filled(7)}, {}),
    ("lasvm", {"learner.ages.grains": lambda _: np.array([[3, 1, 1]])}, {}),
    ("lasvm", {"pending.at_ms": filled(2**62)}, {}),
    ("lasvm", {}, {("answers", "ids", 3): "e0"}),
    # Coefficients, gradients, and values that depend on them.
    ("lasvm", {SOLVER + "alpha": times(3.0)}, {}),
    ("lasvm", {SOLVER + "upper": filled(1e300)}, {}),
    ("lasvm", {SOLVER + "lower": times(1e300), SOLVER + "upper": times(1e300), SOLVER + "alpha": times(1e300)}, {}),
    ("lasvm", {SOLVER + "g": times(2.0)}, {}),
    ("lasvm", {SOLVER + "g": times(1e200)}, {}),
    ("lasvm", {SOLVER + "b": filled(1e200)}, {}),
    ("lasvm", {SOLVER + "best_i": filled(-1), SOLVER + "best_j": filled(-1)}, {}),
    ("bsgd", {SOLVER + "alpha": filled(1e200)}, {}),
    ("bsgd", {SOLVER + "smooth": filled(1e200)}, {}),
    ("bsgd", {SOLVER + "alpha": lambda array: np.where(array, 1e100, 0.0)}, {}),
    ("bsgd", {SOLVER + "smooth": lambda array: np.where(array, 1e140, 0.0)}, {}),
    ("bsgd", {SOLVER + "degradation": filled(1e250)}, {}),
    ("exact", {SOLVER + "R.0": times(2.0)}, {}),
    ("exact", {SOLVER + "R.0": times(1e300)}, {}),
]


def imported(registry, state):
    return import_file(registry.store, "m", BytesIO(pack_export("m", 1, state)), registry.settings)


@pytest.mark.parametrize(("kind", "changed", "told"), HOLES, ids=[f"{k}-{[*c, *t]}" for k, c, t in HOLES])
def test_a_state_that_no_stream_leads_to_is_refused(registry, states, kind, changed, told):
    facts, arrays = decode(states[kind], SNAPSHOT)
    with np.errstate(all="ignore"):
        for name, change in changed.items():
            arrays[name] = change(arrays[name]).astype(arrays[name].dtype)
    for path, value in told.items():
        put(facts, path, value)
    with pytest.raises(Invalid):
        imported(registry, encode(SNAPSHOT, facts, arrays))


def test_too_many_challengers_are_refused_before_any_is_built(registry, states, monkeypatch):
    facts, arrays = decode(states["lasvm"], SNAPSHOT)
    facts["shadows"] = {f"s{n}": facts["learner"] for n in range(1000)}
    made = []
    monkeypatch.setattr(Model, "begin", made.append)
    with pytest.raises(Invalid, match="challengers"):
        imported(registry, encode(SNAPSHOT, facts, arrays))
    assert not made


def test_the_highest_count_that_a_file_may_have_can_still_grow(registry, states):
    facts, arrays = decode(states["lasvm"], SNAPSHOT)
    arrays[SOLVER + "steps"][:] = 2**61
    facts["learned"] = facts["answers"]["newest"] = 2**52
    model = take(registry, encode(SNAPSHOT, facts, arrays))
    assert model.learned == 2**52
    inputs = next(iter(model.pool)).x
    models.learn(model, models.request_of(inputs, ["p"], ["new"]), now_ms=NOW)
    assert digest_of(Model.restore("m", model.snapshot(), **SIZES)) == digest_of(model)


def test_a_window_that_jumps_far_does_not_list_all_numbers_in_between(registry):
    facts = json.dumps(KINDS["lasvm"] | {"window": {"seconds": 10}})
    configuration = parse_configuration(facts, Settings())
    model = models.created(configuration, SIZES, NOW)
    inputs = to_inputs(np.random.default_rng(0).standard_normal((6, 3)).tolist(), configuration)
    request = models.request_of(inputs, ["n", "p"] * 3)
    models.learn(model, request, now_ms=NOW)
    facts, arrays = decode(model.snapshot(), SNAPSHOT)
    arrays["learner.ages.grains"][:, 0] = facts["learned"] = facts["answers"]["newest"] = 2**52
    model = take(registry, encode(SNAPSHOT, facts, arrays))
    models.learn(model, request, now_ms=NOW + 60_000)
    assert model.learner.ages.dropped == 2**52
    assert model.solver.keys().min() > 2**52


@pytest.mark.parametrize("window", [{"seconds": 10}, {"examples": 12}])
@pytest.mark.parametrize("solver", ["lasvm", "tracking-2", "bsca", "exact", "bogd"])
def test_examples_that_leave_a_window_are_the_same_listed_or_looked_up(monkeypatch, solver, window):
    parts = {"solver": solver, "kernel": RBF, "features": DENSE, "window": window}
    if solver == "bsca":
        parts |= {"budget": 6, "extra_steps": 2, "reservoir": 5, "remembered": 30}
    configuration = parse_configuration(json.dumps(parts), Settings())
    xs = np.random.default_rng(0).standard_normal((80, 3)).tolist()
    found = []
    for most in (learner.DROPPED_MAX, 0):
        monkeypatch.setattr(learner, "DROPPED_MAX", most)
        model = models.created(configuration, SIZES, NOW)
        for k in range(0, 80, 8):
            request = models.request_of(to_inputs(xs[k : k + 8], configuration), ["n", "p"] * 4)
            models.learn(model, request, now_ms=NOW + 500 * k)
        assert model.learner.ages.dropped > 20
        found.append(digest_of(model))
    assert found[0] == found[1]


@pytest.mark.long
@pytest.mark.parametrize("kernel", [{"type": "linear"}, {"type": "polynomial", "gamma": "auto", "degree": 16}])
def test_a_model_with_named_features_is_restored_at_any_time_of_its_warm_up(kernel):
    configuration = parse_configuration(
        json.dumps({"kernel": kernel, "features": {"type": "named", "warmup": 40}}), Settings()
    )
    model = models.created(configuration, SIZES, NOW)
    for k in range(50):
        assert digest_of(Model.restore("m", model.snapshot(), **SIZES)) == digest_of(model)
        inputs = to_inputs([{"a": k % 7, "b": "xyz"[k % 3]}], configuration)
        models.learn(model, models.request_of(inputs, ["np"[k % 2]]), now_ms=NOW)


def test_a_damaged_drift_detector_stops_no_server_now_or_at_the_next_start(tmp_path):
    """Other models continue. A file from the time when River supplied the detector is read without the detector's
    bytes.
    """
    batch = {"examples": [{"x": [float(k % 7), float(k % 3), 1.0], "y": "np"[k % 2]} for k in range(100)]}
    with RunningServer(tmp_path / "data") as server, httpx.Client(base_url=server.url, timeout=60) as client:
        for name in ("whole", "b"):
            assert client.put(f"/models/{name}", json=KINDS["lasvm"]).status_code == 201
            assert client.post(f"/models/{name}/learn", json=batch).status_code == 200
        facts, arrays = decode(unpack_export(client.get("/models/whole/export").content), SNAPSHOT)

        def sent(name, changed):
            data = pack_export("whole", 1, encode(SNAPSHOT, facts, changed))
            headers = {"content-type": "application/octet-stream"}
            return client.post(f"/models/{name}/import", content=data, headers=headers)

        buckets, counts = METRICS + "drift.buckets", METRICS + "drift.counts"
        for change in ({buckets: np.zeros(3, np.int64)}, {counts: np.array([0, 0, 0, 0])}):
            refused = sent("a-1", arrays | change)
            assert refused.status_code == 422, refused.text
        former = {name: array for name, array in arrays.items() if name != buckets}
        former |= {
            METRICS + "drift.adwin": np.zeros(300, np.uint8),  # with these bytes, the library divided by a clock of 0
            METRICS + "drift.version": np.frombuffer(b"0.26.1", np.uint8),
        }
        assert sent("a-2", former).status_code == 201
        assert client.post("/models/a-2/learn", json=batch).status_code == 200
        server.kill()
        server.start()
        assert [model["model"] for model in client.get("/models").json()["models"]] == ["a-2", "b", "whole"]
        for name in ("a-2", "b", "whole"):
            assert client.post(f"/models/{name}/learn", json=batch).status_code == 200
