"""On a real server, a model that computes for hours, fails to load, or breaks does not affect other models."""

import threading
import time

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.helpers.fixtures import speaking
from tests.helpers.http_client import Asking, example, refusal
from tests.helpers.server import RunningServer
from tests.helpers.slow_server import BREAKS, SLOW

SLOWLY = ("-m", "tests.helpers.slow_server")
PLAIN = ("-m", "hinged")
HOURS = {"C": SLOW + 10_000}
SLOW_MODELS = 16  # the number of threads that all models once shared


def running(folder, program=SLOWLY, **settings):
    server = RunningServer(folder / "data", program=program, **settings)
    server.began = folder / "began"
    server.env["SLOW_BEGAN"] = str(server.began)
    return server


def begun(server):
    """Return the number of models that have begun to learn for hours."""
    return server.began.read_text().count("\n") if server.began.exists() else 0


class Teaching:
    """Sends requests to models that learn for hours, each on its own thread, and records the answers by model.

    The constructor returns once all models are learning.
    """

    def __init__(self, server, names):
        self.answers = {}
        self._url = server.url
        before = begun(server)
        self._threads = [threading.Thread(target=self._teach, args=(name,), daemon=True) for name in names]
        for thread in self._threads:
            thread.start()
        until(lambda: begun(server) == before + len(names))

    def _teach(self, name):
        body = {"examples": [example([0, 1], "a", "e1"), example([1, 0], "b", "e2")]}
        try:
            self.answers[name] = httpx.post(f"{self._url}/models/{name}/learn", json=body, timeout=300)
        except httpx.HTTPError as error:
            self.answers[name] = error

    def wait(self):
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        return self.answers


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def metrics(ask):
    """Return the values of metrics that have a model or a state, by name and label."""
    return {
        (sample.name, next(iter(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(ask("GET", "/metrics").text)
        for sample in family.samples
        if sample.labels.keys() in ({"model"}, {"state"})
    }


def states(ask):
    return {entry["model"]: entry["state"] for entry in ask("GET", "/models").json()["models"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("neighbours")) as server:
        yield server


ask = speaking(Asking)


@pytest.fixture
def slow(server, ask):
    """Models that learn for hours, and the requests that train them."""
    names = [ask.new_model(**HOURS).name for _ in range(SLOW_MODELS)]
    teaching = Teaching(server, names)
    yield names, teaching
    for name in names:
        ask("DELETE", f"/models/{name}")
    teaching.wait()


@pytest.mark.long
def test_beside_models_that_learn_for_hours_other_models_learn_predict_and_report_figures(slow, ask):
    names, teaching = slow
    model = ask.new_model()
    for k in range(30):
        assert len(model.learn(example([k % 3, k % 2], "ab"[k % 2], f"x{k}"))) == 1
        assert len(model.predict([k % 3, 1])) == 1
    figures = model.figures()
    assert (figures["state"], figures["examples"]) == ("serving", 30)
    assert model.finish()["converged"]
    assert teaching.answers == {}
    # The busy models predict too, from their last published view.
    assert [entry["prediction"] for entry in ask.new_model().predict([0, 1])] == [None]
    assert ask("POST", f"/models/{names[0]}/predict", json={"x": [0, 1]}).status_code == 200
    assert sum(metrics(ask)["hinged_turn_wait_seconds_total", name] for name in names) >= 0


@pytest.mark.long
def test_a_model_that_learns_for_hours_is_deleted_at_once_and_others_come_and_go_meanwhile(slow, ask):
    names, teaching = slow
    gone, *others = names
    assert ask("DELETE", f"/models/{gone}").json() == {"model": gone, "deleted": True}
    until(lambda: gone in teaching.answers)
    assert "was deleted" in refusal(teaching.answers[gone], 503, "unavailable")["message"]
    refusal(ask("GET", f"/models/{gone}"), 404, "not_found")
    assert ask.new_model(gone).learn(example([0, 1], "a"))
    for _ in range(5):
        other = ask.new_model()
        assert ask("DELETE", other.path).status_code == 200
    assert teaching.answers.keys() == {gone}
    assert states(ask).items() >= dict.fromkeys(others, "serving").items()


def test_creations_and_deletions_of_one_name_happen_one_after_the_other(server, ask):
    """The answers fit some order of the requests. In the end the name is free, or there is one complete model."""
    answers = []

    def change(method):
        with Asking(server.url) as own:
            for _ in range(10):
                body = {"kernel": {"type": "linear"}, "features": {"type": "dense", "dim": 2}}
                answers.append(own(method, "/models/disputed", json=body if method == "PUT" else None).status_code)

    threads = [threading.Thread(target=change, args=(method,)) for method in ("PUT", "DELETE") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {200, 201, 404}
    there = states(ask).get("disputed")
    assert answers.count(201) - answers.count(200) <= 30
    assert there in (None, "serving")
    assert ask("DELETE", "/models/disputed").status_code == (200 if there else 404)


@pytest.mark.long
def test_sigterm_gives_up_learning_that_takes_hours_and_keeps_what_was_acknowledged(tmp_path):
    with running(tmp_path, shutdown_s=1) as server, Asking(server.url) as ask:
        names = [ask.new_model(**HOURS).name for _ in range(3)]
        quick = ask.new_model()
        quick.learn(example([0, 1], "a", "first"))
        teaching = Teaching(server, names)
        assert server.terminate() == 0
        teaching.wait()
        assert "3 models have not finished their work in time" in server.log.read_text()
    # On a server without slow learning, the models have exactly the examples of the log.
    with running(tmp_path, PLAIN) as server, Asking(server.url) as ask:
        assert ask("GET", quick.path).json()["examples"] == 1
        assert ask("POST", f"{quick.path}/learn", json=example([0, 1], "a", "first")).json()["results"][0]["duplicate"]
        for name in names:
            assert ask("GET", f"/models/{name}").json()["examples"] == 2


@pytest.fixture
def taught(tmp_path):
    """The folder of a killed server whose models must learn everything again from the log."""

    def teach(**configurations):
        with running(tmp_path, PLAIN) as server, Asking(server.url) as ask:
            for name, changes in configurations.items():
                ask.new_model(name, **changes).learn(example([0, 1], "a"), example([1, 0], "b"))
        return tmp_path

    return teach


@pytest.mark.long
def test_each_of_fifty_models_serves_as_soon_as_it_is_loaded(taught):
    quick = [f"quick{k}" for k in range(44)]
    slow = [f"slow{k}" for k in range(6)]
    folder = taught(**dict.fromkeys(slow, HOURS), **{name: {} for name in quick})
    server = running(folder).start(wait=False)
    try:
        with Asking(server.url) as ask:
            until(lambda: listening(ask) and ask("GET", "/models").status_code == 200)
            until(lambda: all(states(ask)[name] == "serving" for name in quick))
            for name in quick:
                assert len(ask("POST", f"/models/{name}/predict", json={"x": [0, 1]}).json()["results"]) == 1
            assert ask("POST", "/models/quick0/learn", json=example([1, 1], "a")).status_code == 200
            assert ask.new_model("new").figures()["examples"] == 0
            asked = ask("GET", "/readyz")
            assert asked.status_code == 503
            counts = {"total": 51, "loading": 6, "serving": 45, "stopped": 0, "waiting": 0}
            assert asked.json() == {"status": "starting", "models": counts}
            assert metrics(ask)["hinged_models", "loading"] == 6
            for method, path in (("GET", ""), ("POST", "/predict"), ("POST", "/learn"), ("PUT", "")):
                body = {"PUT": {"kernel": {"type": "linear"}, "features": {"type": "dense", "dim": 2}}, "GET": None}
                answer = ask(method, f"/models/slow0{path}", json=body.get(method, example([0, 1], "a")))
                error = refusal(answer, 503, "unavailable")
                assert "slow0 is being loaded" in error["message"]
                assert error["details"] == {"state": "loading"}
                assert answer.headers["retry-after"] == "1"
            for name in slow:
                assert ask("DELETE", f"/models/{name}").status_code == 200
            until(lambda: ask("GET", "/readyz").status_code == 200)
            assert ask("GET", "/readyz").json()["models"] == counts | {"total": 45, "loading": 0}
            refusal(ask("GET", "/models/slow0"), 404, "not_found")
            assert ask.new_model("slow0").figures()["examples"] == 0
    finally:
        server.kill()


def test_a_server_that_is_stopped_while_models_load_ends(taught):
    folder = taught(slow=HOURS, quick={})
    server = running(folder, shutdown_s=1).start(wait=False)
    with Asking(server.url) as ask:
        until(lambda: listening(ask) and ask("GET", "/models").status_code == 200)
        until(lambda: states(ask)["quick"] == "serving")
        assert states(ask)["slow"] == "loading"
    assert server.terminate() == 0
    assert "Traceback" not in server.log.read_text()


def test_a_model_that_raises_a_base_exception_stops_alone_at_the_start(taught):
    broken = {f"broken{k}": {"C": C} for k, C in enumerate(BREAKS)}
    folder = taught(**broken, whole={})
    with running(folder) as server, Asking(server.url) as ask:
        assert ask("GET", "/readyz").json() == {
            "status": "ready",
            "models": {"total": 5, "loading": 0, "serving": 1, "stopped": 4, "waiting": 0},
        }
        listed = {entry["model"]: entry for entry in ask("GET", "/models").json()["models"]}
        found = metrics(ask)
        for name, error in zip(broken, BREAKS.values(), strict=True):
            assert listed[name]["state"] == "stopped"
            assert listed[name]["error"].startswith("event 3 (learned) cannot be applied")
            shown = ask("GET", f"/models/{name}").json()
            assert (shown["state"], shown["examples"]) == ("stopped", 0)
            assert error.__name__ in shown["error"] or error is StopIteration
            assert found["hinged_model_up", name] == 0
        assert (found["hinged_models", "stopped"], found["hinged_models", "serving"]) == (4, 1)
        assert found["hinged_model_up", "whole"] == 1
        assert ask("GET", "/models/whole").json()["examples"] == 2
        assert ask("DELETE", "/models/broken0").status_code == 200
        assert ask("GET", "/readyz").json()["models"]["stopped"] == 3


@pytest.mark.parametrize("C", BREAKS)
def test_a_model_that_raises_a_base_exception_stops_alone_while_it_learns(ask, C):
    model, other = ask.new_model(C=C), ask.new_model()
    refusal(model.try_learn(example([0, 1], "a")), 503, "unavailable")
    assert other.learn(example([0, 1], "a"))
    while (shown := ask("GET", model.path)).status_code == 503:  # until the model has loaded again
        time.sleep(0.01)
    assert (shown.json()["state"], shown.json()["examples"]) == ("stopped", 0)
    entry = next(entry for entry in ask("GET", "/models").json()["models"] if entry["model"] == model.name)
    assert entry["state"] == "stopped"
    assert entry["error"]
    assert ask("GET", "/readyz").json()["models"]["stopped"] == 1
    assert metrics(ask)["hinged_model_up", model.name] == 0
    assert ask("DELETE", model.path).status_code == 200
    assert ask("GET", "/readyz").json()["models"]["stopped"] == 0


def listening(ask):
    try:
        return ask("GET", "/healthz").status_code == 200
    except httpx.TransportError:
        return False
