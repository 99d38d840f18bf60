"""Helpers that send requests to a running server."""

import itertools
import time

import httpx

from tests.helpers.server import PATIENCE_S, PLAIN, is_compiling

KERNEL = {"type": "rbf", "gamma": 1.0}
BASE = {"kernel": KERNEL, "C": 10, "features": {"type": "dense", "dim": 2}}

_numbers = itertools.count(1)


def bearer(key):
    """Return the header of a request with this key."""
    return {"authorization": f"Bearer {key}"}


class Asking:
    """A connection to one server: `ask("GET", "/models")` returns the response."""

    def __init__(self, url):
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=PATIENCE_S, verify=PLAIN)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._http.close()

    def __call__(self, method, path, **request):
        while True:
            answer = self._http.request(method, path, **request)
            # While a model's solver compiles, the server refuses all requests to the model. Then ask again.
            if answer.status_code != 503 or not is_compiling(answer):
                return answer
            time.sleep(float(answer.headers["retry-after"]))

    def new_model(self, name=None, **changes):
        """Create a model with the configuration BASE and these changes."""
        model = AskedModel(self, name or f"m{next(_numbers)}")
        answer = self("PUT", model.path, json=BASE | changes)
        assert answer.status_code == 201, answer.text
        return model


class AskedModel:
    """One model of a server. Methods come in pairs: `try_learn` returns the response; `learn` checks it and returns the
    results.
    """

    def __init__(self, ask, name):
        self.ask = ask
        self.name = name
        self.path = f"/models/{name}"

    def try_learn(self, *examples, **more):
        return self.ask("POST", f"{self.path}/learn", json={"examples": list(examples), **more})

    def learn(self, *examples):
        return _results(self.try_learn(*examples))

    def try_predict(self, *xs):
        return self.ask("POST", f"{self.path}/predict", json={"examples": [{"x": x} for x in xs]})

    def predict(self, *xs):
        return _results(self.try_predict(*xs))

    def finish(self):
        answer = self.ask("POST", f"{self.path}/finish")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def figures(self):
        answer = self.ask("GET", self.path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def _results(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def example(x, y, name=None):
    """Return an example to learn. name: its id, if any."""
    return {"x": x, "y": y} if name is None else {"id": name, "x": x, "y": y}


def refusal(answer, status, code):
    """Check that a response is an error with this status and code in the standard shape; return the error."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert list(body) == ["error"]
    error = body["error"]
    assert list(error) in (["code", "message"], ["code", "message", "details"])
    assert error["code"] == code
    assert error["message"]
    assert "\n" not in error["message"]
    assert isinstance(error.get("details", {}), dict)
    return error
