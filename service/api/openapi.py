"""The OpenAPI document: what every route takes, what it answers, and which errors it may return.

A route declares what is particular to it as a `RouteForm`. This module adds everything that follows from the route's
path, body and role.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from hinged.operations.base import ROWS_TYPE, Operation
from hinged.service.data.names import MODEL_NAME
from hinged.service.edge.refusals import OTHERS, USUAL, refusal_of
from hinged.service.errors import (
    BadRequest,
    BodyTooLarge,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    NotFound,
    QueueFull,
    RequestTimeout,
    ServiceError,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)

JSON_TYPE = "application/json"
REF = "#/components/schemas/"
METHODS = ("get", "put", "post", "patch", "delete")
HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "required": True}},
    429: {
        "Retry-After": {"schema": {"type": "string", "pattern": "^[0-9]+$"}, "required": True, "description": "seconds"}
    },
}
_NAME = {"schema": {"type": "string", "pattern": f"^{MODEL_NAME.pattern}$"}}
_JOB = {"schema": {"type": "string", "pattern": f"^{MODEL_NAME.pattern}[.][0-9]{{1,6}}$"}}
IN_PATHS: dict[str, dict[str, Any]] = {
    "model": {**_NAME, "example": "weather", "description": "the model's name"},
    "version": {"example": "1", "description": "the model's version; the only version is 1"},
    "example": {"example": "day-1", "description": "the id of an example"},
    "shadow": {**_NAME, "example": "softer", "description": "the challenger's name"},
    "key": {"example": "ann", "description": "the name of a key"},
    "hook": {"example": "5f3c1b7a90d24e6f8a1b2c3d4e5f6071", "description": "the id of a hook"},
    "job": {**_JOB, "example": "weather.6", "description": "the job, as the answer that began it names it"},
    "lease": {"example": "c2l4dGVlbiBieXRlcyE", "description": "the lease that came with the query"},
}
"""The parameters in paths: what the document says of each."""
BATCH = {
    "schema": {
        "type": "string",
        "format": "binary",
        "description": "Rows as bytes; docs/reference/http.md describes the format.",
    },
    "example": "hng1...",
}


@dataclass(frozen=True)
class Shape:
    """The form of a body: its type, or a pydantic adapter, and an example."""

    type: Any
    example: Any

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """The adapter that reads and describes the type."""
        return self.type if isinstance(self.type, TypeAdapter) else TypeAdapter(self.type)


class RouteForm(NamedTuple):
    """The description of a route, in addition to its operation and its function.

    errors: errors that do not follow from path, body and role. answers: type of the answer, None for the operation's.
    takes: the body. takes_batch: whether it may also be rows as bytes. optional: whether it may be absent.
    """

    errors: tuple[type[ServiceError], ...] = ()
    answers: Any = None
    takes: Shape | None = None
    takes_type: str = JSON_TYPE
    takes_batch: bool = False
    optional: bool = False
    statuses: tuple[int, ...] = (200,)
    media_type: str = JSON_TYPE


class Documented(Protocol):
    """A route that the document describes."""

    path_format: str
    operation: Operation[..., Any]
    form: RouteForm


def document(app: FastAPI, routes: Iterable[Documented]) -> dict[str, Any]:
    """Return the whole OpenAPI document."""
    found = get_openapi(
        title=app.title,
        version=app.version,
        summary="Kernel machines that learn while they serve.",
        description=inspect.cleandoc(app.description),
        routes=app.routes,
        tags=app.openapi_tags,
    )
    by_path = {(route.path_format, route.operation.method.lower()): route for route in routes}
    schemas: dict[str, Any] = {}
    for path, operations in found["paths"].items():
        for method in METHODS:
            if method in operations:
                _complete(by_path[path, method], operations[method])
                _hoist(operations[method], schemas)
    schemas |= {each.schema["title"]: each.schema for each in (USUAL, *OTHERS.values())}
    found["components"] = {
        "schemas": dict(sorted(schemas.items())),
        "securitySchemes": {
            "key": {"type": "http", "scheme": "bearer", "description": "An API key, if the server has keys."},
            "password": {
                "type": "http",
                "scheme": "basic",
                "description": "The same key as the password, with any user name.",
            },
            "ticket": {
                "type": "apiKey",
                "in": "query",
                "name": "ticket",
                "description": "A ticket from POST /tickets, valid once.",
            },
        },
    }
    return found


def operation_id(route: APIRoute) -> str:
    """Return the name of the route's function. Routes with a model version get the suffix "_version", so that each id
    is unique.
    """
    return f"{route.name}_version" if "{version}" in route.path_format else route.name


def _complete(route: Documented, operation: dict[str, Any]) -> None:
    """Add to `operation` everything that follows from the route's operation and form."""
    rule, form, path = route.operation, route.form, route.path_format
    operation["summary"] = re.split(r"(?<=\w)[.;:]", operation.get("description", ""), maxsplit=1)[0]
    names = [parameter["name"] for parameter in operation.setdefault("parameters", [])]
    in_path = re.findall(r"{(\w+)}", path)
    for missing in [name for name in in_path if name not in names]:
        found = {"name": missing, "in": "path", "required": True, "schema": {"type": "string"}}
        operation["parameters"].append(found)
    operation["parameters"].sort(key=lambda parameter: [*in_path, parameter["name"]].index(parameter["name"]))
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            parameter.update(IN_PATHS.get(parameter["name"], {}))
    errors: list[type[ServiceError]] = [BadRequest, InternalError, *form.errors]
    if rule.role is not None:
        errors += [Unauthenticated, Forbidden, QueueFull, Unavailable]
        others = ["password"] * rule.basic + ["ticket"] * (rule.method == "GET")
        operation["security"] = [{}, *({name: []} for name in ("key", *others))]
    elif rule.method != "GET":
        errors += [Forbidden]  # for a foreign Origin header
    if "{model}" in path:
        errors += [NotFound, Conflict, Invalid]
    if form.takes is not None:
        content = {form.takes_type: {"schema": _schema(form.takes.adapter), "example": form.takes.example}}
        if form.takes_batch:
            content[ROWS_TYPE] = dict(BATCH)
        operation["requestBody"] = {"required": not form.optional, "content": content}
        errors += [RequestTimeout, BodyTooLarge, UnsupportedMediaType, Invalid]
    if any(p["in"] in ("query", "header") for p in operation["parameters"]):
        errors += [Invalid]
    if operation["operationId"] == "create_model":
        errors.remove(NotFound)
    answers = TypeAdapter(rule.answer() if form.answers is None else form.answers)
    responses = {
        str(status): {"description": "Done.", "content": {form.media_type: {"schema": _schema(answers)}}}
        for status in form.statuses
    }
    operation["responses"] = dict(sorted((responses | dict(_error_responses(errors, path, {*responses}))).items()))


def _error_responses(
    errors: list[type[ServiceError]], path: str, taken: set[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    refusal = refusal_of(path)
    by_status: dict[int, list[type[ServiceError]]] = {}
    for error in dict.fromkeys(errors):
        by_status.setdefault(refusal.status(error), []).append(error)
    for status, kinds in by_status.items():
        if str(status) in taken:  # a health route gives this status as its own answer
            continue
        first = kinds[0]
        message = inspect.cleandoc(first.__doc__ or "").partition("\n")[0]
        response: dict[str, Any] = {
            "description": " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n")[0] for kind in kinds),
            "content": {
                JSON_TYPE: {
                    "schema": {"$ref": REF + refusal.schema["title"]},
                    "example": refusal.body(first(message)),
                }
            },
        }
        if status in HEADERS:
            response["headers"] = HEADERS[status]
        yield str(status), response


def _schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    return adapter.json_schema(ref_template=REF + "{model}")


def _hoist(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Move the types of an operation's body and answers into the components of the document. Each type is stored by its
    title.
    """
    media = [operation.get("requestBody", {}), *operation["responses"].values()]
    for part in media:
        for content in part.get("content", {}).values():
            schema = dict(content["schema"])
            definitions = schema.pop("$defs", {})
            names = {REF + name: REF + definition.get("title", name) for name, definition in definitions.items()}
            for name, definition in definitions.items():
                _keep(definition.get("title", name), _renamed(definition, names), schemas)
            schema = _renamed(schema, names)
            if "title" in schema and schema.get("type") == "object":
                _keep(schema["title"], schema, schemas)
                schema = {"$ref": REF + schema["title"]}
            content["schema"] = schema


def _keep(name: str, schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    if schemas.setdefault(name, schema) != schema:
        raise ValueError(f"two schemas have the name {name}")


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, dict):
        return {key: _renamed(value, names) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_renamed(value, names) for value in schema]
    return names.get(schema, schema) if isinstance(schema, str) else schema
