"""Run five jobs with several libraries, check what they find, and count the lines of code.

    python -m benchmarks.jobs [hinged river vowpal_wabbit capymoa]

A line is a line of a job's function without its head, its docstring and blank lines. The helpers that all jobs of a
library share count as `shared`.
"""

import ast
import importlib
import sys
import tempfile
from pathlib import Path

from benchmarks.jobs.stream import WRONG, events, examples

LIBRARIES = ("hinged", "river", "vowpal_wabbit", "capymoa")
JOBS = ("late_labels", "next_labels", "forget", "serve", "wrong_labels")


def lines(node):
    """Return the number of lines of a function's body."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return sum(each.end_lineno - each.lineno + 1 for each in body)


def counted(library):
    """Return the lines of each job, None for a job without a function."""
    tree = ast.parse((Path(__file__).parent / f"with_{library}.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = {node.name: lines(node) for node in functions}
    return {job: found.pop(job, None) for job in JOBS} | {"shared": sum(found.values())}


def check(true):
    """End the program if a job has not done its work."""
    if not true:
        raise SystemExit("a job has not done its work")


def run_hinged(jobs):
    """Run the jobs on a server."""
    from hinged import Client
    from tests.helpers.server import RunningServer

    truth = {key: y for key, _, y in examples()}
    with tempfile.TemporaryDirectory() as folder, RunningServer(f"{folder}/data") as server:
        client = Client(server.url)
        jobs.new(client, "late")
        jobs.new(client, "asked")
        jobs.late_labels(client, events())
        check(client.model("late")["examples"] == len(truth))
        jobs.next_labels(client, examples(), truth.get, 5)
        check(client.model("asked")["examples"] == 5)
        found = jobs.wrong_labels(client, len(WRONG))
        jobs.forget(client, "e17")
        check(client.model("late")["points"] < len(truth))
    return found


def run_in_memory(jobs):
    """Run the jobs of a library that has no server."""
    kept, truth = examples(), {key: y for key, _, y in examples()}
    model = jobs.new()
    jobs.late_labels(model, events())
    found = jobs.wrong_labels(model, kept, len(WRONG))
    jobs.next_labels(jobs.new(), examples(), truth.get, 5)
    jobs.forget(kept, "e17")
    check(len(kept) == len(truth) - 1)
    if hasattr(jobs, "serve"):
        survives(jobs)
    return found


def survives(jobs):
    """Learn over HTTP, and start again from the log."""
    from fastapi.testclient import TestClient

    with tempfile.TemporaryDirectory() as folder:
        first = TestClient(jobs.serve(f"{folder}/log"))
        for key, x, y in examples():
            check(first.post("/learn", json={"id": key, "x": x, "y": y == "yes"}).status_code == 200)
        again, x = TestClient(jobs.serve(f"{folder}/log")), examples()[0][1]
        check(again.post("/predict", json=x).json() == first.post("/predict", json=x).json())


def main():
    print("| library | " + " | ".join((*JOBS, "shared")) + " | wrong labels found |")
    for library in sys.argv[1:] or LIBRARIES:
        try:
            jobs = importlib.import_module(f"benchmarks.jobs.with_{library}")
        except ImportError as error:
            print(f"{library} is left out: {error}")
            continue
        found = (run_hinged if library == "hinged" else run_in_memory)(jobs)
        right = len(set(found) & set(WRONG))
        print(
            f"| {library} | " + " | ".join(str(n) for n in counted(library).values()) + f" | {right} of {len(WRONG)} |"
        )


if __name__ == "__main__":
    main()
