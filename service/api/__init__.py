"""The routes. Each route parses a request, calls one method of a lower layer, and formats the answer.

Each folder contains the routes of one kind in `routes`, with the types of their bodies. The types of the answers are in
hinged.answers. The folders of other protocols have their own types in `shapes`.
"""

from __future__ import annotations

from hinged.operations import DECLARED
from hinged.service.api.alerts.routes import group as alerts_routes
from hinged.service.api.answers.routes import group as answers_routes
from hinged.service.api.changes.routes import group as changes_routes
from hinged.service.api.cluster.routes import group as cluster_routes
from hinged.service.api.examples.routes import group as examples_routes
from hinged.service.api.hooks.routes import group as hooks_routes
from hinged.service.api.inference.routes import group as inference_routes
from hinged.service.api.keys.routes import group as keys_routes
from hinged.service.api.labels.routes import group as labels_routes
from hinged.service.api.labelstudio.routes import group as labelstudio_routes
from hinged.service.api.models.routes import group as models_routes
from hinged.service.api.page.routes import group as page_routes
from hinged.service.api.receipts.routes import group as receipts_routes
from hinged.service.api.server.routes import group as server_routes
from hinged.service.api.serving import RouteTable
from hinged.service.api.snapshots.routes import group as snapshots_routes
from hinged.service.api.streams.routes import group as streams_routes

ROUTES = RouteTable(
    [
        server_routes,
        keys_routes,
        models_routes,
        examples_routes,
        labels_routes,
        answers_routes,
        alerts_routes,
        snapshots_routes,
        changes_routes,
        receipts_routes,
        hooks_routes,
        streams_routes,
        inference_routes,
        labelstudio_routes,
        cluster_routes,
        page_routes,
    ],
    DECLARED,
)
