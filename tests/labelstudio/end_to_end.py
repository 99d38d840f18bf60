"""Run a whole Label Studio project with a model as its ML backend, with a real Label Studio and a real server.

    python -m venv build/studio && build/studio/bin/pip install label-studio==1.23.2
    python -m tests.labelstudio.end_to_end build/studio/bin/label-studio

The tests do not run this program, because Label Studio takes 850 MB. It needs no browser, and Label Studio uses SQLite
in a temporary folder. An annotator annotates 100 texts through the API, always the text that Label Studio asks next.
Then the annotator changes an annotation, deletes an annotation, and skips tasks. Each step prints the state of both
sides. A step that differs from docs/reference/labelstudio.md ends the program with exit code 1.

--data FOLDER keeps Label Studio's database in this folder, so that the next run starts at once. --bodies FOLDER keeps
the bodies that Label Studio sends to webhooks, one file for each action, in the form that the tests use.
"""

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from hinged import Client, HingedError, __version__
from hinged.service.edge.keys import create_key
from tests.helpers.server import PATIENCE_S, RunningServer, eventually, free_port

MODEL = "packages"
PACKAGES = ("asyncio", "email", "logging", "xml")
CONFIG = f"""<View>
  <Text name="text" value="$text"/>
  <Choices name="package" toName="text">{"".join(f'<Choice value="{name}"/>' for name in PACKAGES)}</Choices>
</View>"""
TOKEN = "0123456789" * 4
ANNOTATED, LATER, ROUND = 100, 100, 20
FIRST_START_S = 1000
"""Seconds to wait for Label Studio. Its first start creates tables, which takes a minute of processor time."""


def texts():
    """The docstrings of functions and classes in Python's library, each with its package, in random order."""
    found = {}
    for package in PACKAGES:
        for file in sorted((Path(sysconfig.get_paths()["stdlib"]) / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    text = ast.get_docstring(node)
                    if text is not None and len(text) > 60:
                        found[text] = package
    pairs = sorted(found.items())
    random.Random(0).shuffle(pairs)
    return pairs


class Studio:
    """Label Studio, with requests in the name of one of its users."""

    def __init__(self, command, folder, port):
        self.port = port
        self.url = f"http://127.0.0.1:{self.port}"
        env = {
            **os.environ,
            "HOME": str(folder),
            "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
            "LABEL_STUDIO_USERNAME": "ann@example.com",
            "LABEL_STUDIO_PASSWORD": "of-nobody",
            "LABEL_STUDIO_USER_TOKEN": TOKEN,
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "USE_DEFAULT_BANNED_SUBNETS": "false",  # the model is on this machine
            "COLLECT_ANALYTICS": "false",
            "SENTRY_DSN": "",
            "FRONTEND_SENTRY_DSN": "",
        }
        env.pop("PYTHONPATH", None)
        self.log = Path(folder) / "studio.log"
        options = ["start", "--no-browser", "--port", str(self.port), "--internal-host", "127.0.0.1"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([command, *options], env=env, stdout=log, stderr=log)
        self._http = httpx.Client(base_url=self.url, headers={"authorization": f"Token {TOKEN}"}, timeout=PATIENCE_S)

    def __enter__(self):
        end = time.monotonic() + FIRST_START_S
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            try:
                if self._http.get("/health").status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.5)
        raise RuntimeError(f"Label Studio is not ready after {FIRST_START_S} s: {self.log.read_text()[-2000:]}")

    def __exit__(self, *_):
        self._http.close()
        self.process.kill()
        self.process.wait()

    def __call__(self, method, path, **request):
        answer = self._http.request(method, f"/api/{path}", **request)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None


class Annotator:
    """An annotator who knows the correct labels and annotates the tasks that the project asks next."""

    def __init__(self, studio, project, truth):
        self.studio = studio
        self.project = project
        self.truth = truth  # by text
        self.annotations = []

    def next(self):
        """Ask for the project's next task."""
        return self.studio("GET", f"projects/{self.project}/next/")

    def annotate(self, task, choice=None, **more):
        """Annotate a task with this choice, by default the correct choice."""
        made = self.studio(
            "POST",
            f"tasks/{task['id']}/annotations/",
            json={"result": region(choice or self.truth[task["data"]["text"]]), **more},
        )
        self.annotations.append(made)
        return made


def region(choice):
    """The result of an annotation."""
    return [{"from_name": "package", "to_name": "text", "type": "choices", "value": {"choices": [choice]}}]


@contextmanager
def recording(folder):
    """Start a webhook that keeps the first body of each action in a folder; yield its URL.

    Bodies of skipped tasks have files of their own.
    """

    class Recorder(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body.get("project", {}).pop("token", None)
            cancelled = isinstance(sent := body.get("annotation"), dict) and sent["was_cancelled"]
            path = Path(folder) / f"{body['action'].lower()}{'_cancelled' * cancelled}.json"
            if not path.exists():
                path.write_text(json.dumps(body, indent=1) + "\n")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    Path(folder).mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def predicted_again(studio, project):
    """Delete all predictions, ask the model for new predictions, and return the tasks with them."""
    for action in ("delete_tasks_predictions", "retrieve_tasks_predictions"):
        selected = {"selectedItems": {"all": True, "excluded": []}}
        studio("POST", "dm/actions", params={"project": project, "id": action}, json=selected)
    listed = studio("GET", "tasks", params={"project": project, "page_size": 1000, "fields": "all"})["tasks"]
    assert all(len(task["predictions"]) == 1 for task in listed)
    return listed


def said(task):
    """The model's prediction for a task."""
    result = task["predictions"][0]["result"]
    return result[0]["value"]["choices"][0] if result else None


def accuracy(tasks, truth):
    """The share of the tasks that the model predicts correctly."""
    return sum(said(task) == truth[task["data"]["text"]] for task in tasks) / len(tasks)


def connect(studio, server, keys, pairs, webhook):
    """Create a project with these texts and the model as its backend; return the ids of project and backend."""
    with Client(server.url, key=keys["admin"]) as client:
        client.create_model(MODEL, kernel={"type": "linear"}, features={"type": "text", "warmup": 40})
    parts = {"title": "Packages", "label_config": CONFIG, "sampling": "Uncertainty sampling"}
    project = studio("POST", "projects", json=parts)["id"]
    studio("POST", f"projects/{project}/import", json=[{"text": text} for text, _ in pairs])
    form = {"url": f"{server.url}/labelstudio/models/{MODEL}", "project": project, "title": MODEL}
    access = {"auth_method": "BASIC_AUTH", "basic_auth_user": "studio", "basic_auth_pass": keys["writer"]}
    backend = studio("POST", "ml/", json=form | access)
    assert backend["state"] == "CO", backend  # connected: the server has answered /health and /setup
    studio("PATCH", f"projects/{project}/", json={"model_version": MODEL})
    (made,) = studio("GET", "webhooks/", params={"project": project})
    assert made["url"].endswith("/webhook")
    headers = {"Authorization": f"Bearer {keys['writer']}"}
    studio("PATCH", f"webhooks/{made['id']}/", json={"url": made["url"], "headers": headers})
    if webhook is not None:
        studio("POST", "webhooks/", json={"url": webhook, "project": project, "send_for_all_actions": True})
    return project, backend["id"]


def walk(studio, client, server, keys, webhook):
    """Do everything that docs/reference/labelstudio.md describes, and print a line for each step."""
    truth = dict(texts())
    pairs = list(truth.items())[: ANNOTATED + LATER]
    project, backend = connect(studio, server, keys, pairs, webhook)
    begin = len(server.log.read_text())  # the server refused webhooks before the webhook had its key
    print(f"connected: {len(pairs)} tasks, /health and /setup have worked, the webhook has a writer's key")
    ann = Annotator(studio, project, truth)
    for done in range(0, ANNOTATED, ROUND):
        if done:
            listed = predicted_again(studio, project)
            unlabelled = [task for task in listed if not task["total_annotations"]]
            ordered = sorted(unlabelled, key=lambda task: task["predictions"][0]["score"])
            right = accuracy(unlabelled, truth)
            print(f"{done} annotated: {right:.0%} of the predictions for {len(unlabelled)} open tasks are correct")
            scores = [round(task["predictions"][0]["score"], 3) for task in ordered]
        for k in range(ROUND):
            task = ann.next()
            if done:
                score = next(t["predictions"][0]["score"] for t in ordered if t["id"] == task["id"])
                assert round(score, 3) == scores[k], (k, score, scores[: k + 1])
            ann.annotate(task)
        if done:
            print(f"  asked next: the lowest scores, {scores[0]} to {scores[ROUND - 1]}; the highest is {scores[-1]}")
    figures = client.model(MODEL)
    assert figures["examples"] == ANNOTATED, figures["examples"]
    unlabelled = [task for task in predicted_again(studio, project) if not task["total_annotations"]]
    right = accuracy(unlabelled, truth)
    print(f"{ANNOTATED} annotated, {figures['examples']} learned: {right:.0%} of predictions are correct")

    changed, deleted = ann.annotations[3], ann.annotations[7]
    other = next(name for name in PACKAGES if name != label_of(client, changed))
    studio("PATCH", f"annotations/{changed['id']}/", json={"result": region(other)})
    eventually(lambda: label_of(client, changed) == other)
    print(f"annotation {changed['id']} changed: example ls-{changed['id']} is {other!r}")

    studio("DELETE", f"annotations/{deleted['id']}/")
    eventually(lambda: label_of(client, deleted) == "forgotten")
    eventually(lambda: not client.model(MODEL)["jobs"])
    kept = [example["id"] for example in client.every_example(MODEL)]
    assert len(kept) == ANNOTATED - 1
    assert f"ls-{deleted['id']}" not in kept
    again = ann.annotate({"id": deleted["task"], "data": data_of(studio, deleted["task"])})
    eventually(lambda: label_of(client, again) is not None)
    print(f"annotation {deleted['id']} deleted: forgotten; the new annotation of its task is ls-{again['id']}")

    skipped = ann.annotate(ann.next(), was_cancelled=True)
    taken_back = ann.annotations[11]
    studio("PATCH", f"annotations/{taken_back['id']}/", json={"result": [], "was_cancelled": True})
    eventually(lambda: label_of(client, taken_back) == "forgotten")
    assert label_of(client, skipped) is None
    print(f"a task skipped: nothing learned; annotation {taken_back['id']} cancelled: forgotten")

    away(studio, client, server, ann, backend)

    log = server.log.read_text()
    of_webhooks = [line for line in log[begin:].splitlines() if "/webhook status=" in line]
    refused = [line for line in of_webhooks if not re.search(r" status=20[02] ", line)]
    assert not refused, refused
    took = sorted(float(re.search(r" ms=([0-9.]+)", line)[1]) for line in of_webhooks)
    middle, slowest = took[len(took) // 2], took[-1]
    print(f"the server answered {len(took)} webhooks, half within {middle:.0f} ms, all within {slowest:.0f} ms")
    assert TOKEN not in log
    assert not any(TOKEN.encode() in path.read_bytes() for path in server.data_dir.rglob("*") if path.is_file())
    print("neither the log nor the data contains the user's token")


def away(studio, client, server, ann, backend):
    """Annotate while the server is stopped; a training then brings the annotations to the model."""
    eventually(lambda: not client.model(MODEL)["jobs"])
    server.kill()
    missed = [ann.annotate(ann.next()) for _ in range(5)]
    changed, deleted = ann.annotations[20], ann.annotations[21]
    other = next(name for name in PACKAGES if name != changed["result"][0]["value"]["choices"][0])
    studio("PATCH", f"annotations/{changed['id']}/", json={"result": region(other)})
    studio("DELETE", f"annotations/{deleted['id']}/")
    server.start()
    assert [label_of(client, annotation) for annotation in missed] == [None] * 5
    position = client.model(MODEL)["position"]
    studio("POST", f"ml/{backend}/train", json={})
    eventually(lambda: label_of(client, deleted) == "forgotten")
    eventually(lambda: not client.model(MODEL)["jobs"])
    eventually(lambda: client.model(MODEL)["position"] > position + 7)
    truth = [ann.truth[data_of(studio, annotation["task"])["text"]] for annotation in missed]
    assert [label_of(client, annotation) for annotation in missed] == truth
    assert label_of(client, changed) == other
    print("while the server was stopped: 5 annotations made, one changed, one deleted; training brings them")
    print("training started: the model is finished")
    done = client.reconcile(MODEL, ann.project)["outcomes"]
    assert done["known"] + done["forgotten"] + done["ignored"] == sum(done.values()), done
    print(f"reconciled once more: {done}")


def data_of(studio, task):
    """The data of a task."""
    return studio("GET", f"tasks/{task}/")["data"]


def label_of(client, annotation):
    """The label that the model has learned for an annotation, "forgotten", or None."""
    try:
        return client.example(MODEL, f"ls-{annotation['id']}")["label"]
    except HingedError as error:
        return "forgotten" if error.code == "gone" else None


def main():
    """Run the walk with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("label_studio", help="the command label-studio in an environment of its own")
    parser.add_argument(
        "--data", type=Path, help="a folder that keeps Label Studio's database (default: a temporary folder)"
    )
    parser.add_argument("--bodies", help="a folder for the bodies of webhooks")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        keys = {role: create_key(Path(folder) / "keys.json", role, role) for role in ("writer", "admin")}
        place = asked.data or Path(folder) / "studio"
        place.mkdir(parents=True, exist_ok=True)
        port = free_port()
        settings = {"labelstudio_url": f"http://127.0.0.1:{port}", "labelstudio_token": TOKEN, "log_requests": "yes"}
        with (
            RunningServer(Path(folder) / "data", keys_file=Path(folder) / "keys.json", **settings) as server,
            Client(server.url, key=keys["admin"]) as client,
            Studio(asked.label_studio, place, port) as studio,
            recording(asked.bodies) if asked.bodies else nullcontext() as webhook,
        ):
            release = studio("GET", "version")["release"]
            print(f"hinged {__version__}, Label Studio {release}, Python {sys.version.split()[0]}")
            try:
                walk(studio, client, server, keys, webhook)
            except BaseException:
                print(studio.log.read_text()[-3000:], server.log.read_text()[-2000:], sep="\n", file=sys.stderr)
                raise


if __name__ == "__main__":
    main()
