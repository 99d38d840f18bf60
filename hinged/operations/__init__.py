"""What may be asked of a server, each operation declared once: method, path, role, and the ways that it may take.

The server makes its routes of it (service/api/serving.py), with who may use them, frames and quick ways; a client has a
method for each that is declared. What only other programs ask for is declared where the server answers it.
Neither server nor httpx is imported here.
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
"""All of them. A server that has no route for one of them is refused at import."""

FRAMES = {found.frame: found for found in DECLARED if found.frame is not None}
"""What frames of a WebSocket may ask for, by their `op`."""

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
