"""A fake Label Studio: a real HTTP server whose answers have the form of recorded answers of its API."""

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

ANSWERS = Path(__file__).parents[1] / "labelstudio" / "answers"
"""The folder of recorded answers of Label Studio 1.23.2's API: a page of a project's tasks."""
HELD_S = 60
"""Seconds that an answer waits for `hold` at most."""
LASTING, PERSONAL, SHORT = "0123456789" * 4, "eyJh.of-a-person.c2ln", "eyJh.for-minutes.c2ln"


class FakeStudio:
    """Projects and their tasks in memory. A test changes `projects` and reads `asked`."""

    def __init__(self):
        self.page = json.loads((ANSWERS / "tasks.json").read_text())
        self.projects = {}  # by number: a project with its tasks and the addresses of its models
        self.asked = []  # method and path of each request
        self.short = 0  # how many more requests a short token is valid for
        self.broken = None  # status and body of every answer, while the API is to fail
        self.hold = threading.Event()  # answers wait until it is set
        self.hold.set()
        self.url = None

    def add(self, number, config, *, models, sampling="Uncertainty sampling"):
        """Add a project."""
        project = {"id": number, "title": "Moods", "label_config": config, "sampling": sampling}
        self.projects[number] = project | {"tasks": {}, "models": list(models)}

    def task(self, project, number, data):
        """Add a task to a project."""
        like = dict(self.page["tasks"][0])
        self.projects[project]["tasks"][number] = like | {"id": number, "data": data, "annotations": []}

    def annotate(self, project, task, annotation):
        """Add an annotation to a task, or replace the annotation that has its id."""
        annotations = self.projects[project]["tasks"][task]["annotations"]
        kept = [old for old in annotations if old["id"] != annotation["id"]]
        like = self.page["tasks"][0]["annotations"][0]
        self.projects[project]["tasks"][task]["annotations"] = [*kept, like | annotation | {"task": task}]

    def delete(self, number):
        """Delete an annotation."""
        for project in self.projects.values():
            for task in project["tasks"].values():
                task["annotations"] = [a for a in task["annotations"] if a["id"] != number]

    def answer(self, method, target, headers, body):
        """The status and body for a request."""
        path, query = urlsplit(target).path, {k: v[0] for k, v in parse_qs(urlsplit(target).query).items()}
        self.asked.append(f"{method} {path}")
        self.hold.wait(HELD_S)
        if self.broken is not None:
            return self.broken
        if (method, path) == ("POST", "/api/token/refresh/"):
            if body != {"refresh": PERSONAL}:
                return failed(401, "Token is invalid")
            self.short = 3
            return 200, {"access": SHORT}
        token = headers.get("authorization")
        if token == f"Bearer {SHORT}" and self.short > 0:
            self.short -= 1
        elif token != f"Token {LASTING}":
            return failed(401, "Invalid token.")
        return self._found(path.strip("/").split("/")[1:], query)

    def _found(self, path, query):
        match path:
            case ["projects", number] if int(number) in self.projects:
                return 200, {k: v for k, v in self.projects[int(number)].items() if k not in ("tasks", "models")}
            case ["ml"] if int(query["project"]) in self.projects:
                project = int(query["project"])
                return 200, [{"id": 1, "url": url, "project": project} for url in self.projects[project]["models"]]
            case ["tasks"]:
                tasks = [t for t in self.projects[int(query["project"])]["tasks"].values() if t["annotations"]]
                size = int(query["page_size"])
                begin = size * (int(query["page"]) - 1)
                if begin and begin >= len(tasks):
                    return failed(404, "Invalid page.")
                assert "cancelled_annotations" in query["query"]
                return 200, self.page | {"total": len(tasks), "tasks": tasks[begin : begin + size]}
            case ["annotations", number]:
                for project in self.projects.values():
                    for task in project["tasks"].values():
                        for annotation in task["annotations"]:
                            if annotation["id"] == int(number):
                                return 200, annotation
                return failed(404, "No Annotation matches the given query.")
            case _:
                return failed(404, "No Project matches the given query.")


def failed(status, detail):
    """An error in the form of Label Studio's API."""
    return status, {"id": "5232d2c3", "status_code": status, "version": "1.23.2", "detail": detail, "exc_info": None}


@contextmanager
def fake_studio():
    """A FakeStudio that listens on a port of the loopback address."""
    studio = FakeStudio()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, told = studio.answer(self.command, self.path, self.headers, json.loads(body or b"null"))
            content = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", content.decode())
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            with suppress(BrokenPipeError):  # the client has hung up
                self.wfile.write(content)

        do_POST = do_GET  # noqa: N815  http.server looks for this name

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    studio.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield studio
    finally:
        studio.hold.set()
        server.shutdown()
        server.server_close()
