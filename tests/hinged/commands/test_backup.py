"""Back up all models of a running server to a folder or a tar file, and restore them. The source and the target may
have either store.
"""

import json
import tarfile

import pytest

from hinged import Client
from tests.helpers.command import hinged
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import RunningServer

XS = [[k / 7, k % 3] for k in range(9)]


@pytest.fixture(scope="module")
def sqlite(real):
    return real


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    """A server on Redis."""
    folder = tmp_path_factory.mktemp("backup")
    with RedisServer(folder / "redis") as store, RunningServer(folder / "data", store=store.url) as running:
        yield running


@pytest.fixture(params=["sqlite", "redis"])
def servers(request):
    """The server that the test backs up, and the server with the other store."""
    names = ["sqlite", "redis"]
    return [request.getfixturevalue(name) for name in sorted(names, key=lambda name: name != request.param)]


def run(server, *arguments, code=0):
    return hinged(*arguments, code=code, env={"HINGED_URL": server.url})


def refused(server, *arguments, code=1):
    (line,) = run(server, *arguments, code=code).stderr.splitlines()
    return line


@pytest.fixture
def taught(servers):
    """The predictions of two trained models on the first server. The second server has no models."""
    for server in servers:
        with Client(server.url) as client:
            for model in client.models():
                client.delete_model(model["model"])
    with Client(servers[0].url) as client:
        for name, gamma in (("a", 1.0), ("b.c", 3.0)):
            client.create_model(name, kernel={"type": "rbf", "gamma": gamma}, features={"type": "dense", "dim": 2})
            client.learn(name, [{"id": f"e{k}", "x": x, "y": "uv"[k % 2]} for k, x in enumerate(XS)])
            client.offer(name, [{"id": "c", "x": [0.3, 0.4]}])
        return {name: said(client, name) for name in ("a", "b.c")}


def said(client, name):
    return [result["scores"] for result in client.predict(name, [{"x": x} for x in XS])["results"]]


@pytest.mark.long
@pytest.mark.usefixtures("taught")
def test_a_backup_holds_a_model_without_features(servers, tmp_path):
    here, there = servers
    with Client(here.url) as client:
        client.create_model("backup", C=3)
    run(here, "backup", str(tmp_path / "kept.tar"))
    run(there, "restore", str(tmp_path / "kept.tar"))
    with Client(there.url) as client:
        states = {model["model"]: (model["state"], model["configuration"]) for model in client.models()}
        assert states["backup"] == ("waiting", {"C": 3})
        assert client.learn("backup", [{"x": [1, 2], "y": "u"}])["model"] == "backup"
    assert "backup" in run(here, "models").stdout


@pytest.mark.long
@pytest.mark.parametrize("name", ["kept", "kept.tar", "kept.tar.gz"])
def test_a_backup_restores_the_models_on_another_store(servers, taught, name, tmp_path):
    here, there = servers
    kept = tmp_path / name
    index = json.loads(run(here, "backup", kept).stdout)
    assert [model["model"] for model in index["models"]] == ["a", "b.c"]
    assert [path.name for path in tmp_path.iterdir()] == [name]
    made = [json.loads(line) for line in run(there, "restore", kept).stdout.splitlines()]
    assert [(model["model"], model["examples"]) for model in made] == [("a", len(XS)), ("b.c", len(XS))]
    with Client(there.url) as client:
        assert {model: said(client, model) for model in ("a", "b.c")} == taught
        assert client.learn("a", [{"id": "e0", "x": XS[0], "y": "u"}])["results"][0]["duplicate"]
        assert client.queries("a")["pool"]["size"] == 1


@pytest.fixture
def kept(sqlite, tmp_path):
    with Client(sqlite.url) as client:
        for model in client.models():
            client.delete_model(model["model"])
        for name in ("one", "two"):
            client.create_model(name, kernel={"type": "linear"}, features={"type": "dense", "dim": 1})
            client.learn(name, [{"id": "e", "x": [1], "y": "u"}])
    run(sqlite, "backup", tmp_path / "kept")
    return tmp_path / "kept"


def models(server):
    with Client(server.url) as client:
        return [model["model"] for model in client.models()]


@pytest.mark.long
def test_backup_and_restore_overwrite_nothing(sqlite, kept):
    assert "already exists" in refused(sqlite, "backup", kept)
    with Client(sqlite.url) as client:
        client.delete_model("one")
        client.learn("two", [{"id": "later", "x": [2], "y": "v"}])
        assert "the server has two already" in refused(sqlite, "restore", kept)
        assert models(sqlite) == ["two"]
        done = run(sqlite, "restore", kept, "--skip-existing")
        assert done.stderr.strip() == "skipped: two"
        assert (client.model("one")["examples"], client.model("two")["examples"]) == (1, 2)


@pytest.mark.long
def test_restore_can_restore_a_single_model(sqlite, kept):
    with Client(sqlite.url) as client:
        client.delete_model("one")
        client.delete_model("two")
    assert "has no model three" in refused(sqlite, "restore", kept, "--model", "three")
    run(sqlite, "restore", kept, "--model", "two")
    assert models(sqlite) == ["two"]


@pytest.mark.long
@pytest.mark.parametrize("harm", ["index", "missing", "changed", "elsewhere"])
def test_an_incomplete_backup_is_refused_before_a_model_is_created(sqlite, kept, harm):
    with Client(sqlite.url) as client:
        client.delete_model("one")
        client.delete_model("two")
    words = {
        "index": "is not a backup",
        "missing": "lacks two.hinged",
        "changed": "two.hinged has changed since the backup was written",
    }
    if harm == "index":
        (kept / "backup.json").write_text("[]")
    elif harm == "missing":
        (kept / "two.hinged").unlink()
    elif harm == "changed":
        (kept / "two.hinged").write_bytes((kept / "one.hinged").read_bytes()[::-1])
    else:
        text = (kept / "backup.json").read_text().replace("two.hinged", "../two.hinged")
        (kept / "backup.json").write_text(text)
    assert words.get(harm, "is not a backup: it names the file") in refused(sqlite, "restore", kept)
    assert models(sqlite) == []


def test_restore_refuses_a_file_that_is_not_a_tar(sqlite, tmp_path):
    file = tmp_path / "a.tar"
    file.write_text("nothing")
    assert "is not a backup" in refused(sqlite, "restore", file)
    assert "absent.tar: No such file" in refused(sqlite, "restore", tmp_path / "absent.tar")


@pytest.mark.long
def test_a_failed_backup_leaves_no_file_behind(sqlite, tmp_path):
    dark = RunningServer(tmp_path / "dark")
    assert "(unreachable)" in refused(dark, "backup", tmp_path / "new.tar")
    assert "No such file" in refused(sqlite, "backup", tmp_path / "absent" / "new.tar")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_only_the_owner_may_read_a_backup(sqlite, kept, tmp_path):
    run(sqlite, "backup", tmp_path / "kept.tar")
    assert kept.stat().st_mode & 0o077 == 0
    assert (tmp_path / "kept.tar").stat().st_mode & 0o077 == 0
    with tarfile.open(tmp_path / "kept.tar") as tar:
        assert tar.getnames() == ["one.hinged", "two.hinged", "backup.json"]
