"""The routes. Each route parses a request, calls one method of a lower layer, and formats the answer.

Each file, or `routes` in a folder, contains the routes of one kind, with the types of their bodies. The types of the
answers are in hinged.answers. The folders of other protocols have their own types in `shapes`.
"""

from __future__ import annotations

from hinged.operations import DECLARED
from hinged.service.api import (
    alerts,
    answers,
    changes,
    cluster,
    hooks,
    keys,
    labels,
    models,
    page,
    receipts,
    snapshots,
)
from hinged.service.api.examples.routes import group as examples_routes
from hinged.service.api.inference.routes import group as inference_routes
from hinged.service.api.labelstudio.routes import group as labelstudio_routes
from hinged.service.api.server.routes import group as server_routes
from hinged.service.api.serving import RouteTable
from hinged.service.api.streams.routes import group as streams_routes

ROUTES = RouteTable(
    [
        server_routes,
        keys.group,
        models.group,
        examples_routes,
        labels.group,
        answers.group,
        alerts.group,
        snapshots.group,
        changes.group,
        receipts.group,
        hooks.group,
        streams_routes,
        inference_routes,
        labelstudio_routes,
        cluster.group,
        page.group,
    ],
    DECLARED,
)
