"""Bring a model up to date with a Label Studio project. A real HTTP server stands in for Label Studio's API."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from hinged import Client, HingedError
from tests.helpers.http_client import Asking, refusal
from tests.helpers.label_studio import HELD_S, LASTING, PERSONAL, failed, fake_studio
from tests.helpers.questions import LINEAR
from tests.helpers.server import RunningServer, eventually

CONFIG = """<View><Text name="text" value="$text"/>
  <Choices name="mood" toName="text"><Choice value="glad"/><Choice value="sad"/></Choices></View>"""
NOTHING = {"learned": 0, "known": 0, "corrected": 0, "forgotten": 0, "ignored": 0, "refused": 0}


@pytest.fixture(scope="module")
def studio():
    with fake_studio() as found:
        yield found


@pytest.fixture(scope="module")
def server(studio, tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    with RunningServer(path, labelstudio_url=studio.url + "/", labelstudio_token=LASTING) as running:
        yield running


@pytest.fixture(scope="module")
def ask(server):
    with Asking(server.url) as asking:
        yield asking


class Project:
    """A project of texts with annotated tasks, and the model that is connected to it."""

    numbers = iter(range(1, 1000))
    annotations = iter(range(1, 10_000))

    def __init__(self, ask, studio, name=None, models=None):
        self.ask, self.studio = ask, studio
        self.number = next(self.numbers)
        self.name = name or f"moods{self.number}"
        if name is None:
            model = {"kernel": LINEAR, "features": {"type": "text", "warmup": 4}}
            assert ask("PUT", f"/models/{self.name}", json=model).status_code == 201
        at = [f"http://hinged:8000/labelstudio/models/{self.name}"] if models is None else models
        studio.add(self.number, CONFIG, models=at)

    def annotate(self, choice, number=None, second=0, text=None, **more):
        """Add a task with an annotation to Label Studio. Return the number of the annotation."""
        number = number or next(self.annotations)
        value = {"choices": [choice]}
        region = [{"from_name": "mood", "to_name": "text", "type": "choices", "value": value}]
        if number not in self.studio.projects[self.number]["tasks"]:
            self.studio.task(self.number, number, {"text": text or f"{choice} {number}"})
        at = f"2026-05-01T12:00:{second:02}.123456Z"
        state = {"id": number, "result": region if choice else [], "updated_at": at, **more}
        self.studio.annotate(self.number, number, state)
        return number

    def told(self, number):
        """Send a webhook with the current state of an annotation."""
        project = self.studio.projects[self.number]
        task = project["tasks"][number]
        body = {"action": "ANNOTATION_CREATED", "annotation": task["annotations"][0], "task": task}
        body["project"] = {"id": self.number, "label_config": CONFIG, "sampling": project["sampling"]}
        answer = self.ask("POST", f"/labelstudio/models/{self.name}/webhook", json=body)
        assert answer.status_code in (200, 202), answer.text

    def reconcile(self, **outcomes):
        """Reconcile the model, and check the outcomes."""
        answer = self.ask("POST", f"/labelstudio/models/{self.name}/reconcile", json={"project": self.number})
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"model": self.name, "project": self.number, "outcomes": NOTHING | outcomes}

    def labels(self):
        """Return the model's labels, by annotation."""
        listed = self.ask("GET", f"/models/{self.name}/examples", params={"n": 1000}).json()["examples"]
        return {int(example["id"].removeprefix("ls-")): example["label"] for example in listed}


@pytest.fixture
def project(ask, studio):
    return Project(ask, studio)


def test_annotations_that_no_webhook_brought_are_learned_once(project):
    known = project.annotate("glad")
    project.told(known)
    missed = [project.annotate(choice) for choice in ("sad", "glad", "sad")]
    project.annotate(None, was_cancelled=True)
    project.reconcile(learned=3, known=1, ignored=1)
    assert project.labels() == dict(zip([known, *missed], ["glad", "sad", "glad", "sad"], strict=True))
    project.reconcile(known=4, ignored=1)
    listed = project.ask("GET", f"/models/{project.name}/examples", params={"annotator": "ls-user-1"}).json()
    assert [example["source"] for example in listed["examples"]] == ["queried"] * 4


def test_changed_annotations_are_corrected_and_deleted_or_skipped_ones_forgotten(project):
    changed, deleted, skipped, kept = numbers = [project.annotate(c) for c in ("glad", "sad", "glad", "sad")]
    for number in numbers:
        project.told(number)
    project.annotate("sad", changed, second=5)
    project.studio.delete(deleted)
    project.annotate(None, skipped, second=6, was_cancelled=True)
    project.reconcile(known=1, corrected=1, forgotten=2)
    assert project.labels() == {changed: "sad", kept: "sad"}
    eventually(lambda: not project.ask("GET", f"/models/{project.name}").json()["jobs"])
    project.reconcile(known=2, forgotten=1)  # it was already forgotten
    assert project.ask("GET", f"/models/{project.name}/examples/ls-{deleted}").status_code == 410


@pytest.mark.long
def test_all_pages_are_read(project):
    for k in range(230):
        project.annotate("glad" if k % 2 else "sad")
    project.reconcile(learned=230)
    assert len(project.labels()) == 230


@pytest.mark.long
@pytest.mark.parametrize("change", ["a task less", "a task more"])
def test_annotations_that_move_between_pages_are_learned_and_counted_once(project, change):
    numbers = [project.annotate("glad" if k % 2 else "sad") for k in range(150)]
    whole, pages = project.studio.answer, []

    def answer(method, target, *rest):
        if "/api/tasks/" in target:
            pages.append(target)
            if len(pages) == 2 and change == "a task less":
                project.studio.delete(numbers[3])  # the first task of page 2 moves to the end of page 1
            elif len(pages) == 2:
                tasks = project.studio.projects[project.number]["tasks"]
                late = project.annotate("glad")  # this moves the last task of the first page to the second page
                project.studio.projects[project.number]["tasks"] = {late: tasks[late], **tasks}
        return whole(method, target, *rest)

    project.studio.answer = answer
    try:
        project.reconcile(learned=150)  # the annotation was deleted meanwhile, which a webhook will report
    finally:
        project.studio.answer = whole
    assert project.labels().keys() == set(numbers)


def test_annotations_of_another_project_of_the_model_stay(ask, studio, project):
    other = Project(ask, studio, name=project.name)
    numbers = {project.annotate("glad"): "glad", other.annotate("sad"): "sad"}
    project.reconcile(learned=1)
    other.reconcile(learned=1)
    project.reconcile(known=1)
    assert project.labels() == numbers


def test_examples_not_from_label_studio_stay(project):
    project.annotate("glad")
    own = [{"id": given, "x": "own", "y": "sad"} for given in ("mine", "ls-mine")]
    assert project.ask("POST", f"/models/{project.name}/learn", json={"examples": own}).status_code == 200
    project.reconcile(learned=1)
    assert len(project.ask("GET", f"/models/{project.name}/examples").json()["examples"]) == 3


def test_an_annotation_that_the_model_refuses_does_not_stop_the_next(project):
    odd = project.annotate("glad")
    project.studio.projects[project.number]["tasks"][odd]["data"] = {"pages": 3}
    good = project.annotate("sad")
    project.reconcile(refused=1, learned=1)
    assert project.labels() == {good: "sad"}


def test_a_state_older_than_a_webhooks_changes_nothing(project):
    number = project.annotate("sad", second=9)
    project.told(number)
    project.annotate("glad", number, second=1)  # the state of the annotation when the page was read
    project.reconcile(ignored=1)
    assert project.labels() == {number: "sad"}


def test_an_annotation_deleted_by_webhook_is_not_learned_from_an_older_page(project):
    number = project.annotate("sad")
    body = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": number}]}
    assert project.ask("POST", f"/labelstudio/models/{project.name}/webhook", json=body).status_code == 200
    project.reconcile(ignored=1)
    assert project.labels() == {}


def test_a_reconciliation_logs_a_single_line(project, server):
    before = len(server.log.read_text().splitlines())
    numbers = [project.annotate("glad") for _ in range(4)]
    project.reconcile(learned=4)
    for number in numbers[1:]:
        project.studio.delete(number)
    project.reconcile(known=1, forgotten=3)
    told = [line for line in server.log.read_text().splitlines()[before:] if "WARNING" not in line]
    assert len(told) == 2, told
    assert all(f"model {project.name} is up to date with project {project.number}" in line for line in told)


def test_training_reconciles_first_and_answers_at_once(project):
    numbers = [project.annotate(choice) for choice in ("glad", "sad")]
    before = project.ask("GET", f"/models/{project.name}").json()["position"]
    project.studio.hold.clear()
    body = {"action": "START_TRAINING", "project": {"id": project.number, "label_config": CONFIG}}
    answer = project.ask("POST", f"/labelstudio/models/{project.name}/webhook", json=body)
    assert answer.status_code == 202
    assert project.ask("GET", "/healthz").status_code == 200  # nothing waits for Label Studio
    project.studio.hold.set()
    eventually(lambda: project.labels().keys() == set(numbers))
    eventually(lambda: project.ask("GET", f"/models/{project.name}").json()["position"] > before + len(numbers))


def test_training_goes_on_if_label_studio_is_unreachable(project):
    for choice in ("glad", "sad"):
        project.told(project.annotate(choice))
    eventually(lambda: len(project.labels()) == 2)
    project.studio.broken = 503, b"<html>away</html>"
    try:
        before = project.ask("GET", f"/models/{project.name}").json()["position"]
        body = {"action": "START_TRAINING", "project": {"id": project.number}}
        project.ask("POST", f"/labelstudio/models/{project.name}/webhook", json=body)
        eventually(lambda: project.ask("GET", f"/models/{project.name}").json()["position"] > before)
    finally:
        project.studio.broken = None


def test_a_server_stops_in_time_even_if_label_studio_does_not_answer(studio, tmp_path):
    settings = {"labelstudio_url": studio.url, "labelstudio_token": LASTING, "shutdown_s": "1"}
    with RunningServer(tmp_path / "data", **settings) as server, Asking(server.url) as ask:
        project, asked = Project(ask, studio), len(studio.asked)
        studio.hold.clear()
        body = {"action": "START_TRAINING", "project": {"id": project.number}}
        assert ask("POST", f"/labelstudio/models/{project.name}/webhook", json=body).status_code == 202
        eventually(lambda: len(studio.asked) > asked)
        server.process.terminate()
        assert server.process.wait(HELD_S - 5) == 0
    studio.hold.set()


def test_a_second_request_waits_for_the_first(project):
    project.annotate("glad")
    project.studio.hold.clear()
    asked = len(project.studio.asked)

    def reconcile():
        with Asking(project.ask.url) as ask:
            return ask("POST", f"/labelstudio/models/{project.name}/reconcile", json={"project": project.number})

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(reconcile) for _ in range(2)]
        eventually(lambda: len(project.studio.asked) > asked)
        project.studio.hold.set()
        answers = [future.result().json()["outcomes"] for future in found]
    assert [answer["learned"] for answer in answers] in ([1, 1], [1, 0], [0, 1])  # from one run, or from two runs
    assert len(project.labels()) == 1


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (failed(401, "Invalid token."), "answered 401: HINGED_LABELSTUDIO_TOKEN belongs to no user who may see it"),
        ((302, b"http://169.254.169.254/"), "answered 302"),
        ((500, b"<html>oops</html>"), "answered 500"),
        ((200, b"<html>a page</html>"), "an answer that is not Label Studio's"),
        ((200, {"tasks": []}), "an answer that is not Label Studio's"),
    ],
)
def test_if_label_studio_answers_wrongly_nothing_changes(project, server, broken, reason):
    number = project.annotate("glad")
    project.told(number)
    project.studio.delete(number)
    project.studio.broken = broken
    try:
        answer = project.ask("POST", f"/labelstudio/models/{project.name}/reconcile", json={"project": project.number})
    finally:
        project.studio.broken = None
    message = refusal(answer, 502, "labelstudio_failed")["message"]
    assert message.startswith(f"Label Studio at {project.studio.url}: /api/")
    assert reason in message
    assert LASTING not in message
    assert LASTING not in server.log.read_text()
    assert project.labels() == {number: "glad"}


def test_a_404_that_is_not_label_studios_forgets_nothing(project):
    number = project.annotate("glad")
    project.told(number)
    project.studio.delete(number)
    whole, project.studio.answer = (
        project.studio.answer,
        lambda method, target, *rest: (
            (404, b"<html>no such page</html>") if "/annotations/" in target else whole(method, target, *rest)
        ),
    )
    try:
        answer = project.ask("POST", f"/labelstudio/models/{project.name}/reconcile", json={"project": project.number})
    finally:
        project.studio.answer = whole
    assert "answered 404" in refusal(answer, 502, "labelstudio_failed")["message"]
    assert project.labels() == {number: "glad"}


def test_a_project_that_is_not_connected_to_the_model_is_not_read(ask, studio, project):
    models = [f"http://hinged/labelstudio/models/{project.name}x", f"http://hinged/models/{project.name}"]
    other = Project(ask, studio, name=project.name, models=models)
    other.annotate("glad")
    path = f"/labelstudio/models/{project.name}/reconcile"
    message = refusal(ask("POST", path, json={"project": other.number}), 409, "conflict")["message"]
    assert f"ends with /labelstudio/models/{project.name}: connect it first" in message
    assert "answered 404" in refusal(ask("POST", path, json={"project": 10**6}), 502, "labelstudio_failed")["message"]
    assert project.labels() == {}
    refusal(ask("POST", path, json={"project": "http://169.254.169.254/"}), 422, "invalid")
    refusal(ask("POST", path, json={"project": -1}), 422, "invalid")


def test_without_an_address_of_label_studio_nothing_changes(tmp_path):
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.create_model("m", kernel=LINEAR, features={"type": "text"})
        with pytest.raises(HingedError, match="start the server with HINGED_LABELSTUDIO_URL and") as error:
            client.reconcile("m", 3)
        assert error.value.status == 409


@pytest.mark.long
def test_a_personal_token_is_exchanged_and_the_command_prints_the_outcomes(studio, tmp_path):
    with RunningServer(tmp_path / "data", labelstudio_url=studio.url, labelstudio_token=PERSONAL) as server:
        with Asking(server.url) as ask:
            project = Project(ask, studio)
            for k in range(120):
                project.annotate("glad" if k % 2 else "sad")
            command = [sys.executable, "-m", "hinged", "reconcile", project.name, "--project", str(project.number)]
            said = subprocess.run([*command, "--url", server.url], capture_output=True, text=True, check=True).stdout
            assert "120" in said
            assert len(project.labels()) == 120
        # The first short-lived token was valid for three requests.
        assert studio.asked.count("POST /api/token/refresh/") == 2
        assert PERSONAL not in server.log.read_text()
