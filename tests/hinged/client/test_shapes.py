"""Each method of the clients returns the type that the server's OpenAPI document gives for the route."""

import inspect
import re
import typing

import pytest

from hinged import Client, answers
from hinged.client import routes, shapes
from hinged.service.app import create_app
from hinged.service.settings import Settings

DOCUMENT = create_app(Settings()).openapi()


class Fitted:
    """An estimator with only the parts that `upload` needs."""

    def to_model_file(self):
        return b""


ARGUMENTS = {
    "X": [[1.0]],
    "y": ["a"],
    "ids": ["i"],
    "examples": [],
    "file": b"",
    "estimator": Fitted(),
    "position": 1,
    "answer": {"job": "/jobs/m.1"},
}
METHODS = {
    name: method
    for name, method in inspect.getmembers(routes.Routes, inspect.isfunction)
    if name[0] != "_" and name != "dataframe"  # it returns an object of a library
}
OBJECTS = {
    name: method
    for name, method in METHODS.items()
    if name not in ("metrics", "ready", "wait_until_ready", "export_model")
}


def answer_of(method):
    """Return the type that a method returns, according to the annotation of its exchange."""
    (kind,) = re.fullmatch(r"(?:Call|Exchange)\[(.*)\]", method.__wrapped__.__annotations__["return"]).groups()
    return eval(kind, method.__wrapped__.__globals__)  # noqa: S307  the text comes from our own source


class Asking(Client):
    """A client that sends nothing. Its methods return their first request."""

    def _run(self, steps):
        return next(steps)


def asked(name, method):
    """Return the HTTP method and path of the request that a method makes."""
    parameters = inspect.signature(method).parameters.values()
    required = [p.name for p in parameters if p.name != "self" and p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    with Asking() as client:
        sent = getattr(client, name)(**{given: ARGUMENTS.get(given, given) for given in required})
    return sent.method.lower(), sent.url.removeprefix(client.url)


def told(verb, path):
    """Return the name of the type that the document gives for a route's answer."""
    found = [
        operations[verb]
        for template, operations in DOCUMENT["paths"].items()
        if verb in operations and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path)
    ]
    (operation,) = found
    media = [r["content"]["application/json"] for status, r in operation["responses"].items() if status[0] == "2"]
    assert all(content == media[0] for content in media)
    return getattr(answers, media[0]["schema"]["$ref"].rpartition("/")[2])


@pytest.mark.parametrize("name", [name for name in OBJECTS if name != "wait"])
def test_a_method_returns_the_type_that_the_document_gives_for_its_route(name):
    returned, route = answer_of(OBJECTS[name]), told(*asked(name, OBJECTS[name]))
    if name == "models":  # the method returns only the list that the answer contains
        assert returned == typing.get_type_hints(route)["models"]
    elif typing.get_args(returned):
        kind, before = typing.get_args(returned)
        assert kind is route
        assert before is getattr(shapes, f"{kind.__name__}Before")
        assert typing.get_type_hints(before).items() < typing.get_type_hints(kind).items()
    else:
        assert returned is route


def test_wait_returns_a_job_or_the_answer_that_named_no_job():
    assert set(typing.get_args(answer_of(OBJECTS["wait"]))) == {answer_of(OBJECTS["job"]), answer_of(OBJECTS["forget"])}


def test_methods_that_return_no_object_return_plain_types():
    kinds = {name: answer_of(method) for name, method in METHODS.items() if name not in OBJECTS}
    assert kinds == {"metrics": str, "ready": bool, "wait_until_ready": bool, "export_model": bytes}
