"""The embedded store's files are taken from under a running server."""

import shutil

import pytest
from asking import BASE, Asking, example, refusal
from running import RunningServer

EXAMPLES = [example([k % 5, k % 3], "ab"[k % 2], f"e{k}") for k in range(20)]


@pytest.fixture
def running(tmp_path):
    with RunningServer(tmp_path / "data", limits={"pending_flush_s": 0.05}) as running:
        yield running


@pytest.fixture
def ask(running):
    with Asking(running.url) as ask:
        yield ask


def refused_once_gone(model):
    """A change is refused; what changes nothing is answered as before."""
    error = refusal(model.try_learn(EXAMPLES[10]), 503, "store_unavailable")
    assert "removed, moved or replaced" in error["message"]
    refusal(model.ask("PUT", "/models/more", json=BASE), 503, "store_unavailable")
    refusal(model.ask("POST", f"{model.path}/snapshot"), 503, "store_unavailable")
    assert model.predict([1, 1])[0]["prediction"] in "ab"
    assert model.ask("GET", f"{model.path}/export").status_code == 200  # what is in memory may be saved
    assert model.ask("GET", "/healthz").status_code == 200


def test_nothing_is_acknowledged_while_the_folder_is_away_and_all_goes_on_when_it_is_back(running, ask):
    model = ask.new_model("m")
    model.learn(*EXAMPLES[:10])
    moved = running.data_dir.with_name("moved")
    running.data_dir.rename(moved)
    refused_once_gone(model)
    moved.rename(running.data_dir)
    results = model.learn(*EXAMPLES)
    assert [result["duplicate"] for result in results] == [True] * 10 + [False] * 10
    figures = model.figures()
    log = running.log.read_text()
    assert " ERROR " in log
    assert str(running.data_dir / "hinged.db") in log
    running.kill()
    running.start()
    assert ask("GET", model.path).json()["examples"] == figures["examples"] == len(EXAMPLES)


@pytest.mark.parametrize("away", [shutil.rmtree, lambda folder: (folder / "hinged.db").unlink()])
def test_nothing_is_acknowledged_once_the_database_is_removed(running, ask, away):
    model = ask.new_model("m")
    model.learn(*EXAMPLES[:10])
    away(running.data_dir)
    refused_once_gone(model)
    assert running.terminate() == 0
