"""The protocol of Label Studio, with bodies in the form in which it sends them: predictions, annotations as labels, and
the order of questions.
"""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from hinged import Client
from hinged.service.edge.keys import create_key
from tests.helpers.http_client import Asking, bearer, refusal
from tests.helpers.questions import LINEAR, taught
from tests.helpers.server import ROOT, RunningServer, eventually

CONFIG = """<View>
  <Text name="text" value="$note"/>
  <Choices name="side" toName="text" choice="single"><Choice value="left"/><Choice value="right"/></Choices>
</View>"""
PROJECT = {
    "id": 3, "title": "Sides", "label_config": CONFIG, "sampling": "Uncertainty sampling", "maximum_annotations": 1,
    "created_at": "2026-05-01T08:00:00.000000Z", "created_by": {"id": 1, "email": "ann@example.com"},
    "task_data_login": None, "task_data_password": None, "model_version": "hinged", "control_weights": {},
}  # fmt: skip
BODIES = ROOT / "tests" / "labelstudio" / "bodies"
"""Bodies that Label Studio 1.23.2 sent, recorded by tests/labelstudio/end_to_end.py."""
TOKEN = "a-token-of-somebody"  # noqa: S105  not a real token


def result(choice):
    value = {"choices": [choice]}
    return [
        {"id": "Xk2", "from_name": "side", "to_name": "text", "type": "choices", "value": value, "origin": "manual"}
    ]


def annotation(number, choice="right", second=0, **more):
    """Return an annotation in the form that a webhook has."""
    return {
        "id": number, "completed_by": 1, "result": [] if choice is None else result(choice), "was_cancelled": False,
        "ground_truth": False, "created_at": "2026-05-01T12:00:00.000000Z", "draft_created_at": None,
        "updated_at": f"2026-05-01T12:00:{second:02}.123456Z", "lead_time": 3.5, "prediction": {}, "result_count": 1,
        "unique_id": "5f1c", "import_id": None, "last_action": None, "task": 70, "project": 3, "updated_by": 1,
        "parent_prediction": None, "parent_annotation": None, "last_created_by": None, **more,
    }  # fmt: skip


def task(number, x, **data):
    return {
        "id": number, "data": {"x": x, "note": "a place", **data}, "meta": {}, "is_labeled": False, "overlap": 1,
        "created_at": "2026-05-01T11:00:00.000000Z", "updated_at": "2026-05-01T11:00:00.000000Z", "project": 3,
    }  # fmt: skip


class Late(list):
    """The outcomes of a late webhook. An outcome may also be "known" instead of "learned" or "corrected", because the
    webhook was sent again.
    """

    def __eq__(self, expected):
        return [*self] == ["known" if outcome in {"learned", "corrected"} else outcome for outcome in expected]

    __hash__ = None


class Studio:
    """A stand-in for Label Studio, as the server sees it."""

    def __init__(self, ask, name, headers=None):
        self.ask, self.name, self.headers = ask, name, headers or {}

    def __call__(self, method, route, **more):
        return self.ask(method, f"/labelstudio/models/{self.name}/{route}", headers=self.headers, **more)

    def setup(self):
        return self("POST", "setup", json={
            "project": "3.1777622400", "schema": CONFIG, "hostname": "http://localhost:8080", "access_token": TOKEN,
            "extra_params": None,
        })  # fmt: skip

    def predict(self, *tasks, config=CONFIG):
        params = {"login": None, "password": None, "hostname": "http://localhost:8080", "context": None}
        body = {"tasks": list(tasks), "project": "3.1777622400", "label_config": config, "params": params}
        return self("POST", "predict", json=body)

    def webhook(self, action, **parts):
        return self("POST", "webhook", json={"action": action, "project": PROJECT, **parts})

    def annotated(self, number, choice, x=(0.5, 0.0), second=0, action="ANNOTATION_CREATED", **more):
        """Send a webhook about an annotation, and return the outcomes."""
        return self.told(action, annotation=annotation(number, choice, second, **more), task=task(70, list(x)))

    def deleted(self, *numbers):
        return self.told("ANNOTATIONS_DELETED", annotations=[{"id": number} for number in numbers])

    def told(self, action, **parts):
        """Send a webhook, and return the outcomes for its annotations."""
        answer = self.webhook(action, **parts)
        outcomes = list
        while answer.status_code == 202:  # the machine is busy: the work continues, and ends before the next webhook
            outcomes = Late
            answer = self.webhook(action, **parts)
        assert answer.status_code == 200, answer.text
        return outcomes(answer.json()["outcomes"])


@pytest.fixture
def model(ask):
    """A model that has learned on which side of the boundary a point lies."""
    return taught(ask, kernel=LINEAR)


@pytest.fixture
def studio(model):
    return Studio(model.ask, model.name)


def settled(model):
    eventually(lambda: model.figures()["jobs"] == [])


def label_of(model, given):
    answer = model.ask("GET", f"{model.path}/examples/{given}")
    return answer.json()["label"] if answer.status_code == 200 else answer.status_code


def test_a_project_is_connected(studio):
    assert studio("GET", "health").json() == {"status": "UP", "model_class": "hinged"}
    assert studio.setup().json() == {"model_version": studio.name}
    assert studio("GET", "versions").json() == {"versions": [studio.name]}


def test_a_project_that_does_not_fit_is_refused(studio, ask):
    refusal(Studio(ask, "absent")("GET", "health"), 404, "not_found")
    config = '<View><Image name="i" value="$i"/><RectangleLabels name="r" toName="i"/></View>'
    assert "Choices" in refusal(studio("POST", "setup", json={"schema": config}), 422, "invalid")["message"]
    refusal(studio.predict(task(1, [0, 0]), config=config), 422, "invalid")


def test_tasks_are_predicted_with_the_lowest_score_where_a_label_is_worth_most(studio):
    found = studio.predict(task(1, [2, 0]), task(2, [-0.1, 0]), task(3, [0.4, 0])).json()
    choices = [r["result"][0]["value"]["choices"] for r in found["results"]]
    assert choices == [["right"], ["left"], ["right"]]
    assert {(r["result"][0]["from_name"], r["result"][0]["to_name"]) for r in found["results"]} == {("side", "text")}
    scores = [r["score"] for r in found["results"]]
    assert scores[1] < scores[2] < scores[0] < 1
    # If the version were not the backend's name in the project, Label Studio would sample at random.
    assert {r["model_version"] for r in found["results"]} == {found["model_version"]} == {studio.name}


def test_a_task_that_the_model_cannot_read_does_not_affect_other_tasks(studio):
    odd = {"id": 9, "data": {"note": "no numbers"}}
    found = studio.predict(task(1, [2, 0]), task(2, [1, 2, 3]), odd, task(3, "[-2, 0]")).json()["results"]
    assert [bool(r["result"]) for r in found] == [True, False, False, True]


def test_an_untaught_model_gives_every_task_the_same_score(ask):
    model = ask.new_model()
    found = Studio(ask, model.name).predict(task(1, [0, 0]), task(2, [1, 1])).json()["results"]
    assert [(r["result"], r["score"]) for r in found] == [([], 0.0)] * 2


def test_an_annotation_is_learned_once(studio, model):
    assert studio.annotated(17, "left") == ["learned"]
    assert studio.annotated(17, "left") == ["known"]
    assert studio.annotated(17, "left", second=4, action="ANNOTATION_UPDATED") == ["known"]
    assert model.figures()["examples"] == 11
    (listed,) = model.ask("GET", f"{model.path}/examples", params={"annotator": "ls-user-1"}).json()["examples"]
    assert (listed["id"], listed["label"], listed["source"], listed["corrected"]) == ("ls-17", "left", "queried", False)
    assert model.ask("GET", f"{model.path}/answers").json()["annotators"]["ls-user-1"]["labelled"] == 1


def test_annotations_by_several_annotators_are_separate_examples(studio, model):
    assert studio.annotated(1, "left", completed_by=1) == ["learned"]
    assert studio.annotated(2, "right", completed_by={"id": 2, "email": "bob@example.com"}) == ["learned"]
    assert (label_of(model, "ls-1"), label_of(model, "ls-2")) == ("left", "right")
    assert set(model.ask("GET", f"{model.path}/answers").json()["annotators"]) == {"ls-user-1", "ls-user-2"}


def test_an_annotation_that_is_changed_is_corrected(studio, model):
    studio.annotated(17, "left", second=1)
    assert studio.annotated(17, "right", second=5, action="ANNOTATION_UPDATED") == ["corrected"]
    assert label_of(model, "ls-17") == "right"
    assert studio.annotated(17, "right", second=5, action="ANNOTATION_UPDATED") == ["known"]
    assert studio.annotated(17, "left", second=1) == []  # an older version of the annotation, which comes late
    assert label_of(model, "ls-17") == "right"
    settled(model)


def test_an_annotation_that_is_deleted_is_forgotten(studio, model):
    studio.annotated(17, "left")
    assert studio.deleted(17, 99) == ["forgotten", "ignored"]
    assert studio.deleted(17) == ["forgotten"]
    assert label_of(model, "ls-17") == 410
    assert studio.annotated(17, "left") == ["ignored"]  # the webhook came late
    settled(model)
    assert studio.annotated(18, "left") == ["learned"]  # the same task was labelled again


def test_a_deletion_is_understood_after_a_restart(tmp_path):
    with RunningServer(tmp_path / "data") as server:
        with Client(server.url) as client:
            client.create_model("m", kernel=LINEAR, features={"type": "dense", "dim": 2})
        with httpx.Client(base_url=server.url, timeout=60) as http:
            studio = Studio(http.request, "m")
            assert studio.annotated(17, "left") == ["learned"]
            server.kill()
            server.start()
            assert studio.deleted(17) == ["forgotten"]


@pytest.fixture
def restarting(tmp_path):
    """A server that can be killed and restarted, a stand-in for Label Studio, and a model on the server."""
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        yield server, Studio(ask, "m"), ask.new_model("m", kernel=LINEAR)


def restarted(server, how):
    """Restart the server from a snapshot or from the log alone."""
    if how == "snapshot":
        assert server.terminate() == 0
    else:
        server.kill()
    server.start()


@pytest.mark.parametrize("how", ["log", "snapshot"])
def test_an_older_state_of_an_annotation_is_still_ignored_after_a_restart(restarting, how):
    server, studio, model = restarting
    assert studio.annotated(17, "left", second=1) == ["learned"]
    assert studio.annotated(17, "right", second=5) == ["corrected"]
    assert studio.annotated(18, "left", second=1) == ["learned"]
    assert studio.annotated(18, "left", second=5) == ["known"]  # nothing relevant has changed
    assert studio.annotated(19, None, second=5) == ["ignored"]  # a skip of an annotation that was never learned
    assert studio.deleted(20) == ["ignored"]
    restarted(server, how)
    assert studio.annotated(17, "left", second=1) == []
    assert studio.annotated(18, "right", second=4) == []
    assert studio.annotated(19, "left", second=1) == []
    assert studio.annotated(20, "left", second=9) == ["ignored"]
    assert [label_of(model, f"ls-{n}") for n in (17, 18, 19, 20)] == ["right", "left", 404, 404]
    assert studio.annotated(17, "left", second=6) == ["corrected"]
    assert studio.annotated(19, "left", second=6) == ["learned"]
    settled(model)


def test_the_time_of_a_forgotten_annotation_is_forgotten(restarting):
    server, studio, model = restarting
    for number in (17, 18):
        studio.annotated(number, "left", second=1)
        studio.annotated(number, "right", second=5)
    assert studio.deleted(17) == ["forgotten"]
    settled(model)
    server.terminate()
    left = subprocess.run(["grep", "-rac", '"ls-17"', server.data_dir], capture_output=True, text=True, check=False)
    assert {line.rpartition(":")[2] for line in left.stdout.split()} == {"0"}
    server.start()
    assert studio.annotated(17, "left", second=1) == ["ignored"]
    assert studio.annotated(18, "left", second=1) == []


def test_a_time_in_the_future_is_refused_and_does_not_block_later_changes(studio, model):
    forged = annotation(17, "left", updated_at="9999-12-31T23:59:59Z")
    answer = studio.webhook("ANNOTATION_CREATED", annotation=forged, task=task(70, [0.5, 0.0]))
    assert "updated_at must be at most a day ahead" in refusal(answer, 422, "invalid")["message"]
    soon = (datetime.now(UTC) + timedelta(hours=12)).isoformat()
    assert studio.annotated(17, "left", second=1) == ["learned"]
    assert studio.annotated(17, "right", updated_at=soon) == ["corrected"]
    settled(model)


def test_bodies_recorded_from_label_studio_are_understood(ask):
    model = ask.new_model(kernel=LINEAR, features={"type": "text", "warmup": 4})
    studio, kept = Studio(ask, model.name), {path.stem: json.loads(path.read_text()) for path in BODIES.glob("*.json")}

    def send(name, number=None):
        body = kept[name]
        if number is not None:
            body = body | {"annotation": body["annotation"] | {"id": number}}
        assert studio("POST", "webhook", json=body).status_code in (200, 202)

    def becomes(number, label):
        eventually(lambda: label_of(model, f"ls-{number}") == label)

    (region,) = kept["annotation_created"]["annotation"]["result"]
    region["value"] = {"choices": ["xml"]}  # the update makes a different choice
    send("annotation_created", 1)
    becomes(1, "xml")
    send("annotation_updated", 1)
    becomes(1, kept["annotation_updated"]["annotation"]["result"][0]["value"]["choices"][0])
    send("annotation_updated_cancelled", 1)
    becomes(1, 410)
    (deleted,) = kept["annotations_deleted"]["annotations"]
    send("annotation_created", deleted["id"])
    becomes(deleted["id"], "xml")
    send("annotations_deleted")
    becomes(deleted["id"], 410)
    send("annotation_created_cancelled", 2)
    assert label_of(model, "ls-2") == 404
    assert len(kept) == 5


@pytest.mark.parametrize("skipped", [{"choice": None, "was_cancelled": True}, {"choice": None}])
def test_a_skip_teaches_nothing_and_forgets_an_earlier_annotation(studio, model, skipped):
    assert studio.annotated(17, **skipped) == ["ignored"]
    assert studio.annotated(17, "left", second=2, action="ANNOTATION_UPDATED") == ["learned"]
    assert studio.annotated(17, **skipped, second=3, action="ANNOTATION_UPDATED") == ["forgotten"]
    settled(model)


def test_several_annotations_come_at_once(studio, model):
    sent = [annotation(k, "left", task=70 + k) for k in (1, 2)]
    tasks = [task(72, [-1, 0]), task(71, [-2, 0])]
    assert studio.told("ANNOTATIONS_CREATED", annotation=sent, task=tasks) == ["learned", "learned"]
    assert model.ask("GET", f"{model.path}/examples/ls-1").json()["x"] == [-2, 0]


@pytest.mark.parametrize("action", ["PROJECT_UPDATED", "TASKS_CREATED", "TASKS_DELETED", "WHAT_COMES_NEXT"])
def test_other_webhooks_are_accepted_and_change_nothing(studio, model, action):
    answer = studio.webhook(action, tasks=[{"id": 70}])
    assert (answer.status_code, answer.json()["outcomes"]) == (200, [])
    assert model.figures()["examples"] == 10


def test_training_finishes_the_model(studio, model):
    before = model.figures()["position"]
    assert studio("POST", "webhook", json={"action": "START_TRAINING", "project": PROJECT}).status_code in (200, 202)
    eventually(lambda: model.figures()["position"] > before)


@pytest.mark.parametrize(
    "parts",
    [
        {"annotation": annotation(1)},
        {"annotation": annotation(1), "task": task(70, [1, 2, 3])},
        {"annotation": annotation(1), "task": {"id": 70, "data": {"note": "no numbers"}}},
        {"annotation": {"id": "one"}, "task": task(70, [1, 2])},
        {"annotation": annotation(1, updated_at="soon"), "task": task(70, [1, 2])},
    ],
)
def test_invalid_requests_are_refused(studio, model, parts):
    refusal(studio.webhook("ANNOTATION_CREATED", **parts), 422, "invalid")
    assert model.figures()["examples"] == 10


def test_fields_of_a_task_are_named_features(ask):
    ask("PUT", "/models/notes", json={"kernel": {"type": "rbf"}, "features": {"type": "named", "warmup": 2}})
    studio = Studio(ask, "notes")

    def tried(number, place, side):
        data = {"place": place, "height": 2.5, "_file": "a.csv", "tags": ["a"], "seen": None}
        sent = {"annotation": annotation(number, side), "task": {"id": number, "data": data}}
        return studio.told("ANNOTATION_CREATED", **sent)

    assert [tried(k, "east" if k % 2 else "west", "right" if k % 2 else "left") for k in range(4)] == [["learned"]] * 4
    assert ask("GET", "/models/notes/examples/ls-1").json()["x"] == {"place": "east", "height": 2.5}
    (found,) = studio.predict({"id": 9, "data": {"place": "west", "height": 2.5}}).json()["results"]
    assert found["result"][0]["value"] == {"choices": ["left"]}


def test_the_text_of_a_task_is_a_text(ask):
    ask("PUT", "/models/mails", json={"kernel": {"type": "linear"}, "features": {"type": "text", "warmup": 4}})
    studio = Studio(ask, "mails")
    for k in range(6):
        text = f"turn {'right' if k % 2 else 'left'} at number {k}"
        data = [{"text": text, "source": "a.csv"}, {"mail": text, "_picture": "a.png"}][k // 3]
        sent = {"annotation": annotation(k, "right" if k % 2 else "left"), "task": {"id": k, "data": data}}
        assert studio.told("ANNOTATION_CREATED", **sent) == ["learned"]
    assert ask("GET", "/models/mails/examples/ls-1").json()["x"] == "turn right at number 1"
    (found,) = studio.predict({"id": 9, "data": {"text": "now turn left"}}).json()["results"]
    assert found["result"][0]["value"] == {"choices": ["left"]}
    (found,) = studio.predict({"id": 9, "data": {"one": "left", "two": "right"}}).json()["results"]
    assert found["result"] == []


@pytest.mark.long
def test_a_webhook_does_not_wait_for_a_busy_model(ask):
    model = ask.new_model(C=1000, kernel={"type": "rbf", "gamma": 30.0})
    rows = [{"x": [k / 997 % 1, k / 31 % 1], "y": "left" if k * 7919 % 13 < 6 else "right"} for k in range(3000)]
    model.learn(*rows)
    studio = Studio(ask, model.name)
    with ThreadPoolExecutor(1) as other:
        busy = other.submit(lambda: ask("POST", f"{model.path}/finish", json={"epochs": 2}, timeout=300))
        statuses = set()
        number = 0
        while not busy.done():
            number += 1
            answer = studio.webhook("ANNOTATION_CREATED", annotation=annotation(number), task=task(70, [0.5, number]))
            statuses.add(answer.status_code)
        assert busy.result().status_code == 200
    assert statuses <= {200, 202}
    assert 202 in statuses  # a webhook is answered before its work is done
    eventually(lambda: model.figures()["examples"] == 3000 + number)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with keys, and its log, which shows how the keys are used."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = {role: create_key(folder / "keys.json", role, role) for role in ("reader", "writer", "admin")}
    with RunningServer(folder / "data", keys_file=folder / "keys.json", log_requests="yes") as running:
        running.keys = keys
        with Client(running.url, key=keys["admin"]) as client:
            client.create_model("m", kernel=LINEAR, features={"type": "dense", "dim": 2})
        yield running


def test_the_key_comes_as_the_password_of_basic_authorization_or_in_a_header(guarded):
    import httpx  # noqa: PLC0415

    def asked(method, route, role=None, header=False, **more):
        auth = None if header or role is None else httpx.BasicAuth("anybody", guarded.keys[role])
        headers = bearer(guarded.keys[role]) if header else {}
        return httpx.request(method, guarded.url + route, auth=auth, headers=headers, timeout=60, **more)

    at = "/labelstudio/models/m"
    body = {"action": "ANNOTATION_CREATED", "annotation": annotation(1), "task": task(70, [1, 2]), "project": PROJECT}
    refusal(asked("GET", f"{at}/health"), 401, "unauthenticated")
    assert asked("GET", f"{at}/health", "reader").status_code == 200
    setup = {"schema": CONFIG, "access_token": TOKEN}
    assert asked("POST", f"{at}/setup", "reader", json=setup).status_code == 200
    refusal(asked("POST", f"{at}/webhook", "reader", json=body), 403, "forbidden")
    refusal(asked("POST", f"{at}/webhook", json=body), 401, "unauthenticated")
    assert asked("POST", f"{at}/webhook", "writer", header=True, json=body).json()["outcomes"] == ["learned"]
    assert asked("POST", f"{at}/webhook", "writer", json=body).json()["outcomes"] == ["known"]
    refusal(asked("GET", "/models", "admin"), 401, "unauthenticated")  # on other routes, the key must be in a header
    for wrong in ("Basic", "Basic !", "Basic YTpi"):
        answer = httpx.get(guarded.url + f"{at}/health", headers={"authorization": wrong}, timeout=60)
        refusal(answer, 401, "unauthenticated")
    log = guarded.log.read_text()
    assert "/labelstudio/models/{model}/setup" in log
    assert TOKEN not in log
    files = [path for path in guarded.data_dir.rglob("*") if path.is_file()]
    assert files
    assert not any(TOKEN.encode() in path.read_bytes() for path in files)
