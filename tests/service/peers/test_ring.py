"""The model of a path, and the owner and followers of a model."""

from collections import Counter

import pytest

from hinged.operations.base import DEFAULT
from hinged.service.api import ROUTES
from hinged.service.peers.paths import model_of
from hinged.service.peers.ring import Ring, first_of, owner_of

NODES = {f"http://10.0.0.{n}:8000" for n in range(1, 6)}
NAMES = [f"m{k}" for k in range(1000)]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/models/m", "m"),
        ("/models/m/", "m"),
        ("/models/m.1/examples/a/b", "m.1"),
        ("/models/m/stream", "m"),
        ("/v2/models/m/infer", "m"),
        ("/labelstudio/models/m/predict", "m"),
        ("/jobs/m.1.27", "m.1"),
        ("/cluster/models/m/move", "m"),
        ("/cluster/models/m/claim", None),
        ("/learn", "default"),
        ("/predict", "default"),
        ("/models", None),
        ("/models/", None),
        ("/models/-/learn", None),
        ("/v2/health/live", None),
        ("/", None),
    ],
)
def test_the_model_of_a_path(path, name):
    assert model_of(path) == name


def test_every_path_with_a_model_is_the_owners_unless_declared_otherwise():
    anywhere = []
    for route in ROUTES.all:
        operation = route.operation
        names = dict.fromkeys(operation.parameters, "m.1")
        told = model_of(operation.path_for(**names))
        if operation.anywhere:
            anywhere.append(operation.path)
        if operation.anywhere or not names.keys() & {"model", "job"}:
            assert told == (DEFAULT if operation.covers == DEFAULT else None), operation
        else:
            assert told == ("m" if "job" in names else "m.1"), operation
    assert anywhere == ["/cluster/models/{model}/claim"]


def test_models_are_spread_over_the_living_servers():
    shares = Counter(first_of(NODES, name) for name in NAMES)
    assert shares.keys() == NODES
    assert max(shares.values()) < 1.3 * len(NAMES) / len(NODES)


def test_when_a_server_goes_only_its_models_get_another():
    gone = min(NODES)
    for name in NAMES:
        before, after = first_of(NODES, name), first_of(NODES - {gone}, name)
        assert before in {after, gone}


def test_the_owner_of_a_model_never_changes():
    # These stand in no file: another answer, and models that are there are found no more.
    names = ("default", "spam", "weather", "m", "a.b-c_D")
    assert [owner_of(name, 2) for name in names] == [1, 2, 1, 1, 1]
    assert [owner_of(name, 5) for name in names] == [3, 1, 3, 2, 3]
    assert {owner_of(f"m{k}", 1) for k in range(9)} == {1}


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
@pytest.mark.parametrize("followers", [0, 1, 2, 9])
def test_each_owner_is_followed_by_the_next_processes_in_the_ring(processes, followers):
    for division in range(1, processes + 1):
        rings = [Ring(number, processes, division, followers) for number in range(1, processes + 1)]
        for owner in range(1, division + 1):
            found = [ring.number for ring in rings if owner in ring.followed]
            next_ones = [(owner + k) % processes + 1 for k in range(min(followers, processes - 1))]
            assert found == sorted(next_ones)
