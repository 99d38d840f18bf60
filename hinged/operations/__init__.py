"""Operations: all that a server may be asked, each declared once with its method, path, role and the ways a request may
take.

The server makes routes of the operations (service/api/serving.py), with their roles, frames and quick ways. Each
operation that the clients offer is a method of both clients. An operation for other programs alone is declared where
the server answers it. This package imports neither the server nor httpx.
"""

from typing import Any

from hinged.operations.base import Operation
from hinged.operations.examples import LEARN_DEFAULT, PREDICT_DEFAULT, ExampleOperations
from hinged.operations.labels import LabelOperations
from hinged.operations.models import ModelOperations
from hinged.operations.server import ServerOperations
from hinged.operations.snapshots import SnapshotOperations
from hinged.operations.streams import FOLLOW, STREAM

PARTS = (ModelOperations, ExampleOperations, LabelOperations, SnapshotOperations, ServerOperations)
DECLARED: list[Operation[..., Any]] = [
    *(found for part in PARTS for found in vars(part).values() if isinstance(found, Operation)),
    LEARN_DEFAULT,
    PREDICT_DEFAULT,
    FOLLOW,
    STREAM,
]
"""All declared operations. The server refuses at import to run without a route for each."""

FRAMES = {found.frame: found for found in DECLARED if found.frame is not None}
"""Operations that a WebSocket frame may ask for, by the frame's `op`."""

__all__ = [
    "DECLARED",
    "FOLLOW",
    "FRAMES",
    "LEARN_DEFAULT",
    "PREDICT_DEFAULT",
    "STREAM",
    "ExampleOperations",
    "LabelOperations",
    "ModelOperations",
    "ServerOperations",
    "SnapshotOperations",
]
