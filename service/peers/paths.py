"""Find the model of a request by its path."""

from __future__ import annotations

import re

from starlette.types import Scope

from hinged.operations.base import DEFAULT, PARAMETER
from hinged.service.api import ROUTES
from hinged.service.data.names import MODEL_NAME

_OPERATIONS = [route.operation for route in ROUTES.all]
_BEGIN = {operation.path.partition("{model}")[0] for operation in _OPERATIONS if "model" in operation.parameters}
OF_A_MODEL = re.compile(rf"(?:{'|'.join(map(re.escape, sorted(_BEGIN)))})([^/]+)(?:/.*)?|/jobs/(.+)\.[0-9]+")
"""Matches a path that begins like the path of an operation on a model, or that names a job of a model."""
ANYWHERE = re.compile("|".join(PARAMETER.sub("[^/]+", each.path) for each in _OPERATIONS if each.anywhere))
"""Matches the paths of operations about the server that is asked, although their path names a model."""
OF_THE_DEFAULT = frozenset(operation.path for operation in _OPERATIONS if operation.covers == DEFAULT)
"""The paths of operations on the default model."""


def model_of(path: str) -> str | None:
    """The model that a path is about; None if there is no model, or its name is invalid."""
    path = path.rstrip("/")
    if path in OF_THE_DEFAULT:
        return DEFAULT
    found = None if ANYWHERE.fullmatch(path) else OF_A_MODEL.fullmatch(path)
    name = found and (found[1] or found[2])
    return name if name and MODEL_NAME.fullmatch(name) else None


def target_of(scope: Scope) -> bytes:
    """The path and the query of a request, as they came."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path
