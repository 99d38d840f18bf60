"""The routes for keys: an admin lists, makes and revokes the keys of the file, and no key's text is kept."""

import fcntl
import json
import threading
import time

import pytest

from hinged import Client, HingedError
from hinged.answers import MAY, ROLES
from hinged.service import limits
from hinged.service.edge.keys import create_key, read_keys
from hinged.service.errors import Conflict
from tests.helpers.http_client import Asking, bearer, refusal
from tests.helpers.server import ROOT, RunningServer


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with keys, its key file, and the text of a key for each role."""
    folder = tmp_path_factory.mktemp("keys")
    path = folder / "keys.json"
    keys = {role: create_key(path, role, role) for role in ROLES}
    keys["bound"] = create_key(path, "bound", "admin", ("fraud-*",))
    with RunningServer(folder / "data", keys_file=path, log_requests="yes") as server, Asking(server.url) as plain:

        def ask(who, method, route, **request):
            return plain(method, route, headers=bearer(keys.get(who, who)), **request)

        yield server, ask, path, keys


@pytest.fixture
def ask(guarded):
    return guarded[1]


def named(path):
    return {key.name for key in read_keys(path)}


def test_an_admin_makes_a_key_that_works_at_once_and_revokes_it_at_once(guarded, ask):
    _, _, path, _ = guarded
    answer = ask("admin", "POST", "/keys", json={"name": "ann", "role": "annotator", "models": ["fraud-*", "one"]})
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    made = answer.json()
    text = made.pop("key")
    assert made == {"name": "ann", "role": "annotator", "models": ["fraud-*", "one"]}
    assert ask(text, "GET", "/key").json() == made
    (listed,) = [key for key in ask("admin", "GET", "/keys").json()["keys"] if key["name"] == "ann"]
    assert listed.pop("created_at").endswith("Z")
    assert listed == made
    assert ask("admin", "DELETE", "/keys/ann").json() == {"name": "ann", "revoked": True}
    refusal(ask(text, "GET", "/key"), 401, "unauthenticated")
    assert "ann" not in named(path)  # durably: the file was replaced and synced before the answer
    refusal(ask("admin", "DELETE", "/keys/ann"), 404, "not_found")


@pytest.mark.parametrize("who", [*ROLES[:-1], "bound"])
@pytest.mark.parametrize(
    ("method", "route", "body"),
    [("GET", "/keys", None), ("POST", "/keys", {"name": "x", "role": "reader"}), ("DELETE", "/keys/reader", None)],
)
def test_only_an_admin_of_all_models_may_see_or_change_keys(guarded, ask, who, method, route, body):
    before = guarded[2].read_bytes()
    error = refusal(ask(who, method, route, json=body), 403, "forbidden")
    assert ("all models" if who == "bound" else f"yours is {who}") in error["message"]
    assert guarded[2].read_bytes() == before
    refusal(ask("hinged_wrong", method, route, json=body), 401, "unauthenticated")


def test_no_key_is_kept_but_its_digest(guarded, ask):
    server, _, path, keys = guarded
    text = ask("admin", "POST", "/keys", json={"name": "secret", "role": "admin"}).json()["key"]
    ask("admin", "POST", "/keys", json={"name": "secret", "role": "admin"})
    said = [ask(text, "GET", route).text for route in ("/keys", "/key", "/metrics", "/models", "/overview")]
    said += [server.log.read_text(), path.read_text()]
    assert "admin made the key secret (admin)" in said[-2]
    ask("admin", "DELETE", "/keys/secret")
    assert "admin revoked the key secret" in server.log.read_text()
    for each in said:
        assert not any(key in each or key.removeprefix("hinged_") in each for key in (text, *keys.values()))
    assert "sha256" not in said[0]


def test_a_key_cannot_revoke_itself_so_one_admin_remains(guarded, ask):
    refusal(ask("admin", "DELETE", "/keys/admin"), 409, "conflict")
    assert "admin" in named(guarded[2])


def test_of_two_admins_who_revoke_each_other_at_once_one_remains(guarded, ask):
    _, _, path, _ = guarded
    other = ask("admin", "POST", "/keys", json={"name": "other", "role": "admin"}).json()["key"]
    before, statuses = path.read_bytes(), []

    def revoke(who, name):
        statuses.append(ask(who, "DELETE", f"/keys/{name}").status_code)

    threads = [threading.Thread(target=revoke, args=pair) for pair in (("admin", "other"), (other, "admin"))]
    with (path.parent / "keys.json.new").open("w") as held:  # both changes wait for the lock of the new file
        fcntl.flock(held, fcntl.LOCK_EX)
        for thread in threads:
            thread.start()
        time.sleep(0.5)
    for thread in threads:
        thread.join()
    left = named(path) & {"admin", "other"}
    path.write_bytes(before)
    assert sorted(statuses) == [200, 401]
    assert len(left) == 1
    assert ask("admin", "DELETE", "/keys/other").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {}, {"name": "x"}, {"role": "reader"}, {"name": "a b", "role": "reader"}, {"name": "x" * 65, "role": "reader"},
        {"name": "x", "role": "owner"}, {"name": "x", "role": "reader", "models": []}, {"name": 1, "role": "reader"},
        {"name": "x", "role": "reader", "models": ["*fraud"]}, {"name": "x", "role": "reader", "models": "fraud"},
        {"name": "x", "role": "reader", "models": ["m"] * (limits.KEY_MODELS_MAX + 1)},
        {"name": "x", "role": "reader", "key": "hinged_mine"}, [], None,
    ],
)  # fmt: skip
def test_an_invalid_key_is_refused_and_the_file_stays_as_it_was(guarded, ask, body):
    before = guarded[2].read_bytes()
    answer = ask("admin", "POST", "/keys", json=body)
    assert answer.status_code in (400, 415, 422), answer.text
    assert guarded[2].read_bytes() == before


def test_a_taken_name_is_a_conflict_and_its_key_stays_valid(ask):
    refusal(ask("admin", "POST", "/keys", json={"name": "reader", "role": "admin"}), 409, "conflict")
    assert ask("reader", "GET", "/key").json()["role"] == "reader"


def test_of_keys_that_are_made_at_once_none_is_lost(guarded, ask):
    answers = {}

    def make(name):
        answers[name] = ask("admin", "POST", "/keys", json={"name": name, "role": "reader"})

    threads = [threading.Thread(target=make, args=(f"k{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = {name for name, answer in answers.items() if answer.status_code == 201}
    assert made
    assert {answer.status_code for answer in answers.values()} <= {201, 503}
    assert {name for name in named(guarded[2]) if name[0] == "k"} == made
    for name in made:
        assert ask(answers[name].json()["key"], "GET", "/key").json()["name"] == name
        assert ask("admin", "DELETE", f"/keys/{name}").status_code == 200


def test_a_server_without_keys_says_how_to_get_some(server):
    with Asking(server.url) as plain:
        for method, route, body in (("GET", "/keys", None), ("DELETE", "/keys/x", None)):
            error = refusal(plain(method, route, json=body), 409, "conflict")
            assert "HINGED_KEYS_FILE" in error["message"]


def test_made_and_revoked_keys_stay_so_after_a_kill(tmp_path):
    path = tmp_path / "keys.json"
    admin = bearer(create_key(path, "admin", "admin"))
    texts = {}
    with RunningServer(tmp_path / "data", keys_file=path) as server, Asking(server.url) as ask:
        for name in ("gone", "kept"):
            answer = ask("POST", "/keys", json={"name": name, "role": "reader"}, headers=admin)
            texts[name] = bearer(answer.json()["key"])
        assert ask("DELETE", "/keys/gone", headers=admin).status_code == 200
        server.kill()
    with RunningServer(tmp_path / "data", keys_file=path) as server, Asking(server.url) as ask:
        assert ask("GET", "/key", headers=texts["kept"]).status_code == 200
        refusal(ask("GET", "/key", headers=texts["gone"]), 401, "unauthenticated")


def test_the_client_makes_and_revokes_keys(guarded):
    server, _, _, keys = guarded
    with Client(server.url, key=keys["admin"]) as client:
        made = client.create_key("bob", "writer", ["one"])
        with Client(server.url, key=made["key"]) as bob:
            assert bob.key() == {"name": "bob", "role": "writer", "models": ["one"]}
        assert {"bob", "admin"} <= {key["name"] for key in client.keys()["keys"]}
        assert client.revoke_key("bob") == {"name": "bob", "revoked": True}
        with pytest.raises(HingedError, match="no key named 'bob'"):
            client.revoke_key("bob")


def test_a_file_has_a_limited_number_of_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "KEYS_MAX", 2)
    path = tmp_path / "keys.json"
    for name in ("a", "b"):
        create_key(path, name, "reader")
    with pytest.raises(Conflict, match="at most 2 keys"):
        create_key(path, "c", "reader")


def test_the_words_for_the_roles_are_the_words_of_the_documents(ask):
    roles = ask("admin", "GET", "/keys").json()["roles"]
    assert list(roles) == list(ROLES)
    assert roles == MAY
    table = (ROOT / "docs/explanation/security.md").read_text()
    for role, may in MAY.items():
        assert f"| `{role}` | {may} |" in table, json.dumps(may)
