"""The clients of a random history, and their notes."""

import asyncio
import json
import logging
import os
import random
import traceback
from datetime import UTC, datetime

SOLVERS = ("auto", "lasvm", "exact", "lasvm-g", "bsca", "perceptron", "smo", "lasvm-nc", "tracking-1")
FADING = ("auto", "lasvm", "lasvm-g", "lasvm-nc", "tracking-1")
FORGETTING = ("auto", "lasvm", "exact", "lasvm-g", "bsca", "smo", "perceptron")

HOOKS_HOST = "http://127.0.0.1:9"  # nothing listens there


class Noted:
    """Writes requests and answers, one per line, into a file that remains after the process is killed."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def __call__(self, kind, **facts):
        os.write(self._file, json.dumps({"kind": kind, **facts}).encode() + b"\n")


class Complaints(logging.Handler):
    """Writes the errors in the server's log into the notes."""

    def __init__(self, note):
        super().__init__(logging.ERROR)
        self._note = note

    def emit(self, record):
        if "nothing is acknowledged" in record.getMessage() or "acknowledges nothing" in record.getMessage():
            return  # the store's data was removed on purpose (histories.py)
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        self._note("error", message=record.getMessage(), trace=trace[-3000:])


def annotated(number, version):
    """Return the label that this version of an annotation in Label Studio has."""
    return random.Random(f"{number} {version}").choice(["n", "p", "third"])


class Client:
    """A client that does random things.

    annotations: numbers of the client's annotations in Label Studio; version: version of their next change.
    """

    def __init__(self, http, note, rng, name, features, annotations=(), version=1):
        self.http, self.note, self.rng, self.features = http, note, rng, features
        self.rare = self.rng.random() < 0.5
        self.annotations, self.version = annotations, version
        self.name, self.serial = name, 0
        self.known, self.offered, self.leases = [], [], []

    async def ask(self, method, path, body=None, **options):
        sent = {"json": body} if body is not None else {}
        answer = await self.http.request(method, path, **sent, **options)
        if answer.status_code == 500 or "unforeseen" in answer.text:
            self.note("error", message=f"{method} {path} {json.dumps(body)[:300]}: {answer.text[:300]}", trace="")
        return answer

    def x(self):
        numbers = [self.rng.choice([0, 0.1, 1, -0.3, 2.7, self.rng.gauss(0, 1)]) for _ in range(3)]
        match self.features:
            case "dense":
                return numbers
            case "sparse":
                return {"indices": sorted(self.rng.sample(range(20), 3)), "values": numbers}
            case _:
                words = {"w": self.rng.choice(["a", "b", "c", None]), "t": self.rng.random() < 0.5}
                words |= {"at": f"2026-05-0{self.rng.randint(1, 9)}T12:00", "note": f"{words['w']} or {words['t']}"}
                words["who"] = f"{numbers} {words['at']}"  # seldom repeated
                return {**dict(zip("pqr", numbers, strict=True)), **words, "wild": self.rng.choice([0, 1, 1e30, -1e99])}

    def label(self):
        if self.rare:
            return self.rng.choice(["p", 1, True, "third"]) if self.rng.random() < 0.04 else "n"
        return self.rng.choice(["n", "n", "n", "p", "p", "p", 1, True, "third"])

    def given(self):
        self.serial += 1
        return f"{self.name}-{self.serial}"

    async def learn(self, model):
        examples = []
        for _ in range(self.rng.choice([1, 1, 1, 2, 5, 9])):
            example = {"x": self.x(), "y": self.label()}
            if self.rng.random() < 0.85:
                example["id"] = self.given()
            if self.rng.random() < 0.1:
                example["weight"] = self.rng.choice([0.1, 1, 7.5, 1e20])
            examples.append(example)
        if self.rng.random() < 0.1 and self.known:
            examples[0] = self.rng.choice(self.known)
        await self._learn(model, examples)

    async def _learn(self, model, examples):
        self.note("sent", model=model, examples=examples)
        answer = await self.ask("POST", f"/models/{model}/learn", {"examples": examples})
        if answer.status_code == 200:
            ids = [result["id"] for result in answer.json()["results"] if "collected" not in result]
            self.note("learned", model=model, ids=ids)
            self.known += [example for example in examples if example.get("id")]

    async def predict(self, model):
        body = {"examples": [{"id": self.given(), "x": self.x()} for _ in range(self.rng.choice([1, 3]))]}
        if self.rng.random() < 0.2:
            body["explain"] = 2
        answer = await self.ask("POST", f"/models/{model}/predict", body)
        if answer.status_code == 200 and self.rng.random() < 0.7:
            late = [{"id": e["id"], "y": self.label()} for e in body["examples"]]
            self.note("waits", model=model, examples=body["examples"])
            await self._learn(model, late)

    async def decide(self, model):
        examples = [{"id": self.given(), "x": self.x()} for _ in range(self.rng.choice([1, 4]))]
        self.note("waits", model=model, examples=examples)
        answer = await self.ask("POST", f"/models/{model}/decide", {"examples": examples})
        if answer.status_code == 200:
            self.offered += [result["id"] for result in answer.json()["results"] if "question" in result]
            if self.rng.random() < 0.5:
                await self._learn(model, [{"id": e["id"], "y": self.label()} for e in examples])

    async def alerts(self, model):
        order = self.rng.choice(["newest", "best"])
        answer = await self.ask("GET", f"/models/{model}/alerts?n={self.rng.choice([1, 50])}&order={order}")
        if answer.status_code == 200:
            ids = [alert["id"] for alert in answer.json()["alerts"]]
            await self.ask("POST", f"/models/{model}/alerts/acknowledge", {"ids": [*ids[:3], "unknown"]})
            if self.rng.random() < 0.3:
                reopened = {"ids": ids[:2], "reopen": True}
                await self.ask("POST", f"/models/{model}/alerts/acknowledge", reopened)

    async def offer(self, model):
        examples = [{"id": self.given(), "x": self.x()} for _ in range(self.rng.choice([1, 4]))]
        self.note("waits", model=model, examples=examples)
        for show in self.rng.choice([[None], ["one"], [None, "one", {"text": "another"}]]):
            await self.ask("POST", f"/models/{model}/pool", {"examples": [e | {"show": show} for e in examples]})
        self.offered += [e["id"] for e in examples]

    async def question(self, model):
        who = self.rng.choice(["ann", "bob", "eve"])
        strategy = self.rng.choice(["active", "random", "autoactive"])
        body = {"n": 2, "annotator": who, "strategy": strategy, "lease_s": self.rng.choice([0.01, 60])}
        if self.rng.random() < 0.3:
            body["held"] = []
        answer = await self.ask("POST", f"/models/{model}/queries", body)
        if answer.status_code != 200:
            return
        for query in answer.json()["queries"]:
            lease = query["lease"]
            fate = self.rng.choice(["answer", "answer", "skip", "release", "heartbeat", "nothing"])
            if fate == "answer":
                await self._learn(model, [{"id": query["id"], "y": self.label(), "lease": lease}])
            elif fate != "nothing":
                await self.ask("POST", f"/models/{model}/queries/{lease}/{fate}")
                if fate == "skip" and self.rng.random() < 0.5:
                    await self.ask("DELETE", f"/models/{model}/queries/{lease}/skip")

    async def configure(self, model):
        if self.rng.random() < 0.4:  # change it and change it back
            there, back = self.rng.sample(CHANGES[:6], 2)
            for changes in (there, back):
                answer = await self.ask("PATCH", f"/models/{model}", changes)
                if answer.status_code == 202 and self.rng.random() < 0.7:
                    await self.wait(answer.json()["job"])
            return
        await self.ask("PATCH", f"/models/{model}", self.rng.choice(CHANGES))

    async def wait(self, job):
        for _ in range(200):
            answer = await self.ask("GET", job)
            if answer.status_code != 200 or answer.json()["state"] != "running":
                return
            await asyncio.sleep(0.005)

    async def challenge(self, model):
        shadow = self.rng.choice(["s1", "s2"])
        fate = self.rng.choice(["PUT", "PUT", "promote", "DELETE"])
        if fate == "PUT":
            answer = await self.ask("PUT", f"/models/{model}/shadows/{shadow}", self.rng.choice(CHANGES))
            if answer.status_code == 202 and self.rng.random() < 0.5:
                await self.wait(answer.json()["job"])
                await self.ask("POST", f"/models/{model}/shadows/{shadow}/promote")
        elif fate == "promote":
            await self.ask("POST", f"/models/{model}/shadows/{shadow}/promote")
        else:
            await self.ask("DELETE", f"/models/{model}/shadows/{shadow}")

    async def roll_back(self, model):
        answer = await self.ask("GET", f"/models/{model}")
        if answer.status_code == 200:
            to = self.rng.randint(1, answer.json()["position"])
            await self.ask("POST", f"/models/{model}/rollback", {"position": to})

    async def finish(self, model):
        await self.ask("POST", f"/models/{model}/finish", {"epochs": self.rng.choice([0, 1, 2])})

    async def forget(self, model):
        if self.known or self.offered:
            given = self.rng.choice([example["id"] for example in self.known] + self.offered)
            self.note("forget", model=model, id=given)
            await self.ask("DELETE", f"/models/{model}/examples/{given}")

    async def correct(self, model):
        if self.known:
            given = self.rng.choice(self.known)["id"]
            await self.ask("PUT", f"/models/{model}/examples/{given}", {"y": self.label()})

    async def revise(self, model):
        """Give another answer than before, or the same answer again."""
        answer = await self.ask("GET", f"/models/{model}/answers")
        if answer.status_code == 200 and answer.json()["answers"]:
            given = self.rng.choice(answer.json()["answers"])
            example = {"id": given["id"], "y": self.rng.choice([given["label"], self.label()])}
            self.note("sent", model=model, examples=[example])
            body = {"annotator": given["annotator"], "y": example["y"]}
            await self.ask("PUT", f"/models/{model}/answers/{given['id']}", body)

    async def withdraw(self, model):
        """Forget an answer."""
        answer = await self.ask("GET", f"/models/{model}/answers")
        if answer.status_code == 200 and answer.json()["answers"]:
            given = self.rng.choice(answer.json()["answers"])
            self.note("forget", model=model, id=given["id"])
            params = {"annotator": given["annotator"]}
            await self.ask("DELETE", f"/models/{model}/answers/{given['id']}", params=params)

    async def annotate(self, _):
        """Send an annotation as Label Studio does: its current version, or an older version that is late or
        repeated.
        """
        number, version = self.rng.choice(self.annotations), self.version
        if self.rng.random() < 0.4:
            version = self.rng.randrange(version)
        else:
            self.version += 1
        rng, self.rng = self.rng, random.Random(number)
        x, self.rng = self.x(), rng
        label = annotated(number, version)
        at = datetime.fromtimestamp(1_750_000_000 + version, UTC).isoformat()
        chosen = [{"from_name": "c", "to_name": "t", "type": "choices", "value": {"choices": [label]}}]
        self.note("sent", model="annotated", examples=[{"id": f"ls-{number}", "x": x, "y": label}])
        self.note("annotating", id=number, version=version)
        answer = await self.ask("POST", "/labelstudio/models/annotated/webhook", {
            "action": "ANNOTATION_UPDATED",
            "annotation": {"id": number, "result": chosen, "updated_at": at, "completed_by": 1},
            "task": {"id": number, "data": {"x": x}},
        })  # fmt: skip
        if answer.status_code == 200:
            self.note("annotated", id=number, version=version)
        elif answer.status_code not in (202, 404, 429, 503):
            self.note("error", message=f"a webhook: {answer.text[:500]}", trace="")

    async def hook(self, model):
        """Add or remove a hook. Its receiver does not exist, so marks wait."""
        answer = await self.ask("GET", f"/models/{model}/hooks")
        there = [hook["id"] for hook in answer.json()["hooks"]] if answer.status_code == 200 else []
        if there and self.rng.random() < 0.4:
            await self.ask("DELETE", f"/models/{model}/hooks/{self.rng.choice(there)}")
        else:
            kinds = ["finished", "reconfigured", "swapped", "promoted", "rolled_back", "drift"]
            body = {"url": f"{HOOKS_HOST}/path", "events": self.rng.sample(kinds, 3)}
            await self.ask("POST", f"/models/{model}/hooks", body)

    async def keep(self, model):
        await self.ask("POST", f"/models/{model}/snapshot")

    async def copy(self, model):
        options = {"params": {"as_of": self.rng.randint(1, 30)}} if self.rng.random() < 0.4 else {}
        answer = await self.ask("GET", f"/models/{model}/export", **options)
        if answer.status_code == 200:
            copy = self.rng.choice(["m2", "m3"])
            if self.rng.random() < 0.3:
                self.note("deleted", model=copy)
                await self.ask("DELETE", f"/models/{copy}")
            headers = {"content-type": "application/octet-stream"}
            answer = await self.http.post(f"/models/{copy}/import", content=answer.content, headers=headers)
            if answer.status_code not in (201, 409, 503):
                self.note("error", message=f"import of an export: {answer.text[:500]}", trace="")

    async def look(self, model):
        paths = ("", "/suspects", "/certificate", "/loo", "/queries", "/shadows", "/history", "/answers", "/pool")
        await self.ask("GET", f"/models/{model}{self.rng.choice(paths)}")

    async def live(self, steps):
        kinds, weights = zip(*WHAT, strict=True)
        for _ in range(steps):
            model = self.rng.choice(["m", "m", "m", "m2", "m3"])
            await getattr(self, self.rng.choices(kinds, weights)[0])(model)


WHAT = (
    ("learn", 40), ("predict", 12), ("decide", 8), ("alerts", 2), ("offer", 6), ("question", 8),
    ("configure", 8), ("challenge", 4),
    ("roll_back", 3), ("finish", 3), ("forget", 4), ("correct", 3), ("revise", 3), ("withdraw", 1), ("keep", 2),
    ("copy", 2), ("look", 5), ("annotate", 10),
    ("hook", 2),
)  # fmt: skip
CHANGES = (
    {"precision": "float64"}, {"precision": "float32"}, {"kernel": {"type": "rbf", "gamma": 0.7}},
    {"receipts": True}, {"receipts": False},
    {"kernel": {"type": "polynomial", "gamma": 0.5, "degree": 3, "coef0": 1.0}}, {"kernel": {"type": "linear"}},
    {"kernel": {"type": "laplacian", "gamma": 0.2}}, {"kernel": {"gamma": 0.3}}, {"C": 10}, {"C": 0.5},
    {"kernel": {"type": "rbf", "gamma": "scale"}},
    {"class_weight": {"p": 3}}, {"class_weight": None}, {"seed": 7}, {"solver": "lasvm"}, {"solver": "exact"},
    {"solver": "bsca", "budget": 5}, {"solver": "lasvm-g"}, {"solver": "smo"}, {"solver": "perceptron"},
    {"window": {"examples": 40}}, {"window": {"examples": 20, "step": 7}}, {"window": {"examples": 20, "step": None}},
    {"window": {"seconds": 0.3}}, {"window": None}, {"points_max": 15}, {"solver": "tracking-2"},
    {"half_life": {"examples": 40}}, {"half_life": {"examples": 10, "step": 10}}, {"half_life": {"seconds": 0.1}},
    {"half_life": {"examples": 70, "step": None}}, {"half_life": None},
    {"calibration": "sigmoid"}, {"calibration": "auto"}, {"watch": ["p", "third"]}, {"watch": None},
    {"segments": ["w", "note"]}, {"segments": ["t"]}, {"segments": None},
    {"costs": {"n": {"p": 9}, "p": {"n": 3}, "ask": 0.4}}, {"costs": {"third": {"n": 50}}}, {"costs": None},
    {"solver": "auto", "rules": 4}, {"solver": "auto", "rules": 5},
    {"solver": "auto", "goal": "cost", "costs": {"n": {"p": 9}, "third": {"n": 50}}}, {"goal": "accuracy"},
    {"costs": {"n": {"p": 9}, "p": {"n": 3}, "ask": 0.4}, "capacity": {"ask": {"most": 2, "per": "1s"}}},
    {"costs": {"n": {"p": 9}, "ask": 0}, "capacity": {"ask": {"most": 9, "per": "2s"}, "p": {"most": 1, "per": "3s"}}},
    {"costs": {"n": {"p": 9}, "p": {"n": 3}}, "explore": {"p": 0.3}}, {"explore": {"n": 1}}, {"explore": None},
    {"costs": None, "capacity": None, "explore": None}, {"capacity": None},
    {"promise": {"error": 0.1}}, {"promise": {"error": {"p": 0.05, "third": 0.2}}}, {"promise": None},
    {"alarm": {"level": 0.01}}, {"alarm": {"level": 0.4}}, {"alarm": None},
    {"novelty": True, "alarm": {"level": 0.5}}, {"novelty": True}, {"novelty": {"level": 0.2}}, {"novelty": None},
    {"points_max": 25, "when_full": "remove"}, {"points_max": 200, "when_full": "refuse"},
    {"labels": {"pool_max": 3}}, {"labels": {"overlap": 2}}, {"labels": {"overlap": 2, "tie_breakers": 0}},
    {"labels": {"overlap": 2, "combine": "reliability"}}, {"labels": {"combine": "majority"}},
    {"labels": {"overlap": 1, "pool_max": 50}}, {"show": {"origins": ["https://a.example"]}}, {"show": None},
    {"labels": {"budget": 0.5, "explore": 0.5}}, {"labels": {"budget": 0.9, "explore": 0}},
    {"labels": {"budget": None}},
    {"labels": {"pending_durable": True}}, {"labels": {"pending_max": 4}}, {"labels": {"pending_s": 0.2}},
)  # fmt: skip


def configuration_of(rng):
    """Return a random configuration for a new model."""
    form = rng.choice(["dense", "dense", "sparse", "named"])
    scale = rng.choice([{}, {"scale": "auto", "warmup": rng.choice([1, 7, 40])}, {"scale": "auto"}])
    features = {
        "dense": {"type": "dense", "dim": 3, **scale},
        "sparse": {"type": "sparse", "dim": 20, **scale},
        "named": {
            "type": "named",
            "warmup": rng.choice([0, 10, 40, 60]),
            "columns_max": rng.choice([4, 50]),
            "columns": rng.choice([None, {"note": {"type": "text"}, "at": {"type": "time"}}]),
        },
    }[form]
    kernel = rng.choice(
        [
            {"type": "rbf", "gamma": 0.5},
            {"type": "rbf", "gamma": 0.5 if form == "named" else "scale"},
            {"type": "linear"},
            {"type": "polynomial", "gamma": 0.5, "degree": 2, "coef0": 1.0},
        ]
    )
    solver = rng.choice(SOLVERS)
    more = {"budget": 6} if solver == "bsca" else {}
    if rng.random() < 0.2 and solver in FORGETTING:
        more["window"] = rng.choice([{"examples": 40}, {"examples": 40, "step": 30}, {"seconds": 0.5}])
    elif rng.random() < 0.3 and solver in FADING:
        more["half_life"] = rng.choice([{"examples": 40}, {"examples": 200, "step": 3}, {"seconds": 0.3}])
    more["calibration"] = rng.choice(["auto", "auto", "sigmoid"])
    more["novelty"] = rng.choice([False, True])
    if form == "named":
        more["segments"] = rng.choice([None, ["w", "who"], ["at", "note", "unknown"]])
    return form, {"solver": solver, "kernel": kernel, "features": features, **more}
