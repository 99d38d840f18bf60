"""The memory and load that a server reports about its models."""

from types import SimpleNamespace

import pytest

from hinged.service.cluster import figures
from hinged.service.cluster.figures import MEMORY_S, PREDICTION_S, Figures, memory_max_bytes


class Models:
    """A roster that only reports the memory, CPU time and predictions of models."""

    def __init__(self, *names):
        self.loaded = {
            name: SimpleNamespace(
                predictions_served=0, failed=False, model=SimpleNamespace(memory_bytes=lambda: 1000),
                published=SimpleNamespace(position=7),
            )
            for name in names
        }  # fmt: skip
        self.seconds = dict.fromkeys(names, 0.0)

    def used(self):
        return dict(self.seconds)

    def workers(self):
        return sorted(self.loaded.items())

    def names(self):
        return [*sorted(self.loaded), "coming"]

    def state(self, name):
        return ("serving" if name in self.loaded else "loading"), None

    def progress(self):
        return {"loading": 1}


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(figures.time, "monotonic", lambda: clock.now)
    return clock


def loads(of):
    return {each["model"]: each["load"] for each in of.of_models() if "load" in each}


def test_a_load_is_the_mean_over_minutes(clock):
    models = Models("busy", "idle")
    found = Figures(models)
    for _ in range(200):
        clock.now += 2.0
        models.seconds["busy"] += 1.0
        found.look()
    assert loads(found)["busy"] == pytest.approx(0.5, rel=0.1)
    assert loads(found)["idle"] == 0.0
    assert found.of_node["load"] == pytest.approx(0.5, rel=0.1)
    clock.now += MEMORY_S
    found.look()
    assert loads(found)["busy"] == pytest.approx(0.5 / 2.718, rel=0.1)


def test_predictions_count_and_a_model_that_is_loaded_again_has_no_negative_load(clock):
    models = Models("m")
    found = Figures(models)
    models.loaded["m"].predictions_served = 1000
    clock.now += 2.0
    found.look()
    before = loads(found)["m"]
    assert before == pytest.approx(1000 * PREDICTION_S / MEMORY_S, rel=0.01)
    models.loaded["m"].predictions_served = 0
    clock.now += 2.0
    found.look()
    assert 0.0 < loads(found)["m"] < before


def test_a_loading_model_has_only_a_state():
    assert Figures(Models("m")).of_models()[1] == {"model": "coming", "state": "loading"}


def test_the_memory_limit_is_positive_and_at_most_the_machines():
    assert 2**20 < memory_max_bytes() < 2**62
