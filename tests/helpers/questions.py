"""Short forms for active learning: offer candidates, ask for questions, give labels."""

import time
from datetime import datetime

from tests.helpers.http_client import AskedModel, example


def offered(model, xs, **more):
    """Offer candidates c0, c1, ... with these x; return the answer."""
    examples = [{"id": f"c{k}", "x": x, **more} for k, x in enumerate(xs)]
    return model.ask("POST", f"{model.path}/pool", json={"examples": examples}).json()


def asked(model, annotator="ann", n=1, **more):
    answer = model.ask("POST", f"{model.path}/queries", json={"annotator": annotator, "n": n, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["queries"]


def until_over(question):
    """Wait until a question's lease has run out."""
    time.sleep(max(0.0, datetime.fromisoformat(question["expires_at"]).timestamp() - time.time()) + 0.01)


def peeked(model, **params):
    return model.ask("GET", f"{model.path}/queries", params=params).json()


def label(model, *examples):
    return model.ask("POST", f"{model.path}/learn", json={"examples": list(examples)})


LINEAR = {"type": "linear"}


def taught(ask, **changes):
    """A model that has learned that x[0] > 0 is "right"."""
    model = ask.new_model(C=100, **changes)
    model.learn(*(example([s * (1 + k / 10), 0], "right" if s > 0 else "left") for k in range(5) for s in (-1, 1)))
    return model


def line_model(ask):
    """A model whose score is x[0], and that asks no random questions."""
    return taught(ask, kernel=LINEAR, labels={"explore": 0})


LINE = [[k / 10 - 2, 0.0] for k in range(41)]  # c20 is on the boundary


def named_model(ask, name, **changes):
    body = {"kernel": {"type": "rbf", "gamma": "auto"}, "features": {"type": "named", "warmup": 20}, "C": 1}
    answer = ask("PUT", f"/models/{name}", json=body | changes)
    assert answer.status_code == 201, answer.text
    return AskedModel(ask, name)
