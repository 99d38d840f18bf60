"""What the clients' methods are said to return is what the server's OpenAPI document says of the routes they ask."""

import inspect
import re
import types
import typing

import pytest

from hinged import Client
from hinged.client import routes
from hinged.service.app import create_app
from hinged.service.settings import Settings

DOCUMENT = create_app(Settings()).openapi()


class Fitted:
    """What `upload` takes."""

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
METHODS = {name: method for name, method in inspect.getmembers(routes.Routes, inspect.isfunction) if name[0] != "_"}
OBJECTS = {
    name: method
    for name, method in METHODS.items()
    if name not in ("metrics", "ready", "wait_until_ready", "export_model")
}
SCALARS = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
LESS = {"Released", "Skipped", "Retired"}
"""Of which a part is missing where a second try found that the first had done it."""


def answer_of(method):
    """The type of a method's answer: what its exchange returns."""
    (kind,) = re.fullmatch(r"Exchange\[(.*)\]", method.__wrapped__.__annotations__["return"]).groups()
    return eval(kind, method.__wrapped__.__globals__)  # noqa: S307  it stands in our own source


class Asking(Client):
    """A client that sends nothing and says what it would have asked."""

    def _run(self, steps):
        return next(steps)


def asked(name, method):
    """Verb and path of the request that a method makes."""
    parameters = inspect.signature(method).parameters.values()
    required = [p.name for p in parameters if p.name != "self" and p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    with Asking() as client:
        sent = getattr(client, name)(**{given: ARGUMENTS.get(given, given) for given in required})
    return sent.method.lower(), sent.url.removeprefix(client.url)


def schema_of(verb, path):
    """The schema of what a route answers."""
    found = [
        operations[verb]
        for template, operations in DOCUMENT["paths"].items()
        if verb in operations and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path)
    ]
    (operation,) = found
    media = [r["content"]["application/json"] for status, r in operation["responses"].items() if status[0] == "2"]
    assert all(content == media[0] for content in media)
    return media[0]["schema"]


def resolved(schema):
    if "$ref" in schema:
        return DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def check(kind, schema, where):
    """A type says what a schema says: the same parts, and of each the same."""
    schema = resolved(schema)
    if kind is typing.Any:
        return
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)  # without NotRequired
        assert set(hints) == set(schema["properties"]), where
        needed = kind.__required_keys__
        assert needed <= set(schema["required"]) if kind.__name__ in LESS else needed == set(schema["required"]), where
        for part, of in hints.items():
            check(of, schema["properties"][part], f"{where}.{part}")
        return
    arguments = typing.get_args(kind)
    match typing.get_origin(kind):
        case types.UnionType | typing.Union:
            assert {type_of(s) for s in schema["anyOf"]} == set(arguments), where
        case typing.Literal:
            assert list(arguments) == schema.get("enum", [schema.get("const")]), where
        case _ if kind is list or typing.get_origin(kind) is list:
            assert schema["type"] == "array", where
            check(arguments[0], schema["items"], f"{where}[]")
        case _ if typing.get_origin(kind) is dict:
            assert schema["type"] == "object", where
            more = schema["additionalProperties"]
            assert (arguments[1] is typing.Any) == (more is True), where
            if more is not True:
                check(arguments[1], more, f"{where}{{}}")
        case _:
            assert type_of(schema) is kind, where


def type_of(schema):
    """The type of a schema that has no parts that are told."""
    if schema["type"] == "object" and schema["additionalProperties"] is True:
        return dict[str, typing.Any]
    if "enum" in schema:
        return typing.Literal[tuple(schema["enum"])]
    return SCALARS[schema["type"]]


@pytest.mark.parametrize("name", [name for name in OBJECTS if name != "wait"])
def test_the_answer_of_a_method_has_the_parts_that_the_document_tells(name):
    kind = answer_of(OBJECTS[name])
    schema = schema_of(*asked(name, OBJECTS[name]))
    if name == "models":  # the method leaves out what stands around them
        schema, (kind,) = resolved(schema)["properties"]["models"]["items"], typing.get_args(kind)
    assert typing.is_typeddict(kind)
    check(kind, schema, kind.__name__)


def test_who_waits_for_a_change_gets_its_job_or_the_answer_that_told_of_none():
    assert set(typing.get_args(answer_of(OBJECTS["wait"]))) == {answer_of(OBJECTS["job"]), answer_of(OBJECTS["forget"])}


def test_what_is_no_object_has_its_own_type():
    kinds = {name: answer_of(method) for name, method in METHODS.items() if name not in OBJECTS}
    assert kinds == {"metrics": str, "ready": bool, "wait_until_ready": bool, "export_model": bytes}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (list[int], {"type": "array", "items": {"type": "string"}}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (typing.Literal["a"], {"enum": ["a", "b"]}),
        (
            typing.TypedDict("Ours", {"a": int}),
            {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]},
        ),
        (typing.TypedDict("Ours", {"a": int}), {"properties": {"a": {"type": "integer"}}, "required": []}),
    ],
)
def test_what_differs_is_noticed(kind, schema):
    with pytest.raises(AssertionError):
        check(kind, schema, "")
