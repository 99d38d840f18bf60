"""This version opens the stores of earlier versions and continues. tests/upgrades/old_stores.py wrote the stores."""

import json
import lzma
from contextlib import closing

import pytest

from hinged import Client, HingedError
from hinged.frames import decode, encode
from hinged.service.engine.history import ModelHistory
from hinged.service.model.state import FORMAT, SNAPSHOT
from hinged.service.store.base import Event
from tests.helpers.states import digest_of
from tests.upgrades.old_stores import BARE, HERE, answers, digests, examples, filled, server_on

VERSIONS = sorted(path.name for path in HERE.iterdir() if path.is_dir() and path.name[0].isdigit())
LATER = {
    "0.1.0": {"lasvm": ["idle_max", "delta_min", "half_life"], "exact": ["half_life"], "bsca": ["half_life", "nearest"]}
}  # by version and solver: parameters that the version did not know
SIZES = {"cache_bytes": 2**20, "answers_kept": 1000}


@pytest.fixture(params=[(version, kind) for version in VERSIONS for kind in ("sqlite", "redis")], ids="-".join)
def left(request, tmp_path):
    """Yields a server on the store of an earlier version, a function that opens the store, and the answers. The server
    is not started.

    "later" in the answers: for each solver, the parameters that the version did not know.
    """
    version, kind = request.param
    place = HERE / version
    content = lzma.decompress((place / f"{kind}.xz").read_bytes())
    with server_on(kind, tmp_path, content) as (server, opened):
        told = json.loads((place / "answers.json").read_text())
        yield server, opened, told | {"digests": told["digests"][kind], "later": LATER.get(version)}


@pytest.mark.long
def test_an_old_store_gives_the_same_states_and_answers_to_the_bit(left):
    server, opened, told = left
    with closing(opened()) as store:
        later, expected = told.pop("later"), told.pop("digests")
        assert digests(store, expected, later) == expected
    with server, Client(server.url) as client:
        assert answers(client, told) == told


def test_models_of_an_old_store_learn_forget_roll_back_and_survive_a_crash(left):
    server, _, told = left
    names = list(told["digests"])
    with server, Client(server.url) as client:
        for name in names:
            before = client.model(name)["position"]
            assert client.learn(name, examples(name, 1, 1, "a"))["results"][0]["duplicate"]
            client.learn(name, examples(name, 20, 11, "new"))
            client.finish(name)
            client.rollback(name, before)
            client.learn(name, examples(name, 20, 12, "newer"))
        for name in ("plain", "precise"):
            client.wait(client.forget(name, "a7"))
        client.promote("plain", "other")
        if BARE in {listed["model"] for listed in client.models()}:
            client.learn(BARE, examples("plain", 20, 1))
            names.append(BARE)
        found = answers(client, names)
        server.kill()
    with server, Client(server.url) as client:
        assert answers(client, names) == found
        with pytest.raises(HingedError, match="forgotten"):
            client.rollback("precise", 1)


@pytest.mark.long
def test_an_event_of_a_later_version_is_reported_and_the_state_before_it_serves(left):
    server, opened, told = left
    with closing(opened()) as store:
        end = store.end("plain")
        store.append("plain", end, [Event("teleported", encode("teleported", {}, {}))])
    with server, Client(server.url) as client:
        assert answers(client, ["plain"])["plain"] == told["plain"]
        with pytest.raises(HingedError, match="unknown kind of event: 'teleported'"):
            client.learn("plain", examples("plain", 1, 13))
        client.learn("small", examples("small", 1, 13))


def test_a_snapshot_of_a_later_version_is_reported_and_the_log_is_read(left, caplog):
    _, opened, told = left
    with closing(opened()) as store:
        newest = store.snapshots("named")[0]
        facts, arrays = decode(store.get_snapshot("named", newest), SNAPSHOT)
        later = encode(SNAPSHOT, {**facts, "format": FORMAT + 1}, arrays)
        for position in store.snapshots("named"):
            store.put_snapshot("named", position, later)
        model = ModelHistory(store, "named", **SIZES).newest()
    assert digest_of(model, told["later"]) == told["digests"]["named"]
    assert f"the snapshot must have format {FORMAT}, got {FORMAT + 1}" in caplog.text


@pytest.mark.long
def test_the_stores_of_the_next_release_will_hold_every_kind_of_event(tmp_path):
    with server_on("sqlite", tmp_path) as (server, opened):
        filled(server, opened)
