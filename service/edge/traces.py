"""OpenTelemetry: a span for each request, if the environment names an endpoint for spans.

OpenTelemetry's variables turn it on and configure it. Like the request log, a span has the method, the template of the
route, the status and the model, and nothing else that a client sent. It continues the trace of a `traceparent` header.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

from starlette.types import Scope

from hinged.extras import Lacking, needed
from hinged.service.edge.logs import model_of
from hinged.version import __version__

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
CONTEXT = (b"traceparent", b"tracestate")
FAILED = 500  # status from which a span counts as failed

CLOSING_S = 2.0
"""Seconds that the last spans get to be sent when the server ends."""


def open_spans() -> Spans | None:
    """The maker of spans, if the environment asks for spans."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    try:
        return Spans()
    except Lacking as error:
        log.warning("no traces: %s", error)
        return None


class Spans:
    """Makes a span of each request; a thread of OpenTelemetry sends it."""

    def __init__(self) -> None:
        """Lacking if OpenTelemetry is not installed."""
        with needed("otel", "tracing"):
            from opentelemetry import trace  # noqa: PLC0415  needed only for traces
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        names = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "hinged"), "service.version": __version__}
        self._provider = TracerProvider(resource=Resource.create(names), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("hinged", __version__)
        self._context = TraceContextTextMapPropagator()
        self._server, self._failed = trace.SpanKind.SERVER, trace.Status(trace.StatusCode.ERROR)

    def __call__(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        """Make the span of a request that has just ended. route: the template."""
        ended = time.time_ns()
        facts: dict[str, Any] = {
            "http.request.method": scope["method"],
            "http.route": route,
            "http.response.status_code": status,
        }
        model = model_of(scope)
        if model is not None:
            facts["hinged.model"] = model
        sent = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in CONTEXT}
        span = self._tracer.start_span(
            f"{scope['method']} {route}",
            context=self._context.extract(sent),
            kind=self._server,
            attributes=facts,
            start_time=ended - round(1e9 * seconds),
        )
        if status >= FAILED:
            span.set_status(self._failed)
        span.end(ended)

    def close(self) -> None:
        """Send the remaining spans, for at most CLOSING_S."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSING_S)
