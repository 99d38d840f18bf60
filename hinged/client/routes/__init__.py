"""The routes of the server as methods, which say nothing of how requests travel.

Each says what is to be done, an exchange, and of which type its answer is. `Client` returns that answer, `AsyncClient`
an awaitable of it: `route` makes both of one method.
"""

from hinged.client.routes.examples import ExampleRoutes
from hinged.client.routes.labels import LabelRoutes
from hinged.client.routes.models import ModelRoutes
from hinged.client.routes.server import ServerRoutes
from hinged.client.routes.snapshots import SnapshotRoutes


class Routes(ModelRoutes, ExampleRoutes, LabelRoutes, SnapshotRoutes, ServerRoutes):
    """One method a route. An example's x is a sequence of numbers, {"indices": ..., "values": ...}, or a mapping of
    named features, as the model has it; arrays will do. One example may stand for a list of one. In named features NaN,
    None and NaT are missing, and a moment is its text.
    """
