"""Operations: everything that a client can ask of a server. Each operation is declared once, with its method, path,
role, and the ways by which a request may come.

The server makes its routes from the operations (service/api/serving.py), including their roles, frames and shortcuts.
Each operation that the clients offer is a method of both clients. An operation that is only for other programs is
declared where the server answers it. This package imports neither the server nor httpx.
"""

from typing import Any

from hinged.operations.alerts import AlertOperations, AlertOrder
from hinged.operations.base import Operation
from hinged.operations.examples import LEARN_DEFAULT, PREDICT_DEFAULT, ExampleOperations
from hinged.operations.hooks import HookOperations
from hinged.operations.labels import LabelOperations
from hinged.operations.models import ModelOperations
from hinged.operations.receipts import ReceiptOperations
from hinged.operations.server import ServerOperations
from hinged.operations.snapshots import SnapshotOperations
from hinged.operations.streams import FOLLOW, STREAM

PARTS = (
    ModelOperations,
    ExampleOperations,
    LabelOperations,
    AlertOperations,
    SnapshotOperations,
    HookOperations,
    ReceiptOperations,
    ServerOperations,
)
DECLARED: list[Operation[..., Any]] = [
    *(found for part in PARTS for found in vars(part).values() if isinstance(found, Operation)),
    LEARN_DEFAULT,
    PREDICT_DEFAULT,
    FOLLOW,
    STREAM,
]
"""All declared operations. If an operation has no route, the import of the server fails."""

FRAMES = {found.frame: found for found in DECLARED if found.frame is not None}
"""The operations that a WebSocket frame may ask for, by the `op` of the frame."""

__all__ = [
    "DECLARED",
    "FOLLOW",
    "FRAMES",
    "LEARN_DEFAULT",
    "PREDICT_DEFAULT",
    "STREAM",
    "AlertOperations",
    "AlertOrder",
    "ExampleOperations",
    "HookOperations",
    "LabelOperations",
    "ModelOperations",
    "ReceiptOperations",
    "ServerOperations",
    "SnapshotOperations",
]
