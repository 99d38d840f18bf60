"""What the path of a request is about."""

from __future__ import annotations

import re

from starlette.types import Scope

from hinged.service.data.names import DEFAULT, MODEL_NAME

OF_A_MODEL = re.compile(r"/(?:v2/|labelstudio/)?models/([^/]+)(?:/.*)?|/cluster/models/([^/]+)/move|/jobs/(.+)\.[0-9]+")
OF_THE_DEFAULT = ("/learn", "/predict")


def model_of(path: str) -> str | None:
    """The model that a path is about; None for one that is about none, or about a name that no model can have."""
    path = path.rstrip("/")
    if path in OF_THE_DEFAULT:
        return DEFAULT
    found = OF_A_MODEL.fullmatch(path)
    name = found and (found[1] or found[2] or found[3])
    return name if name and MODEL_NAME.fullmatch(name) else None


def target_of(scope: Scope) -> bytes:
    """The path and the query of a request, as they came."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path
