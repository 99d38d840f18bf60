"""Spans of requests, as an OpenTelemetry collector receives them from a real server."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hinged.service.edge.traces import open_spans
from tests.helpers.http_client import Asking, example
from tests.helpers.server import RunningServer, eventually

TRACE = "0af7651916cd43dd8448eb211c80319c"


class Collector:
    """A collector.

    spans: name, attributes, trace and failure of each span, except spans of health checks.
    """

    def __init__(self):
        self.spans = []
        self.bodies = b""
        self.service = None
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.take(self.path, body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, path, body):
        assert path == "/v1/traces"
        self.bodies += body
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            facts = {fact.key: fact.value.string_value for fact in of_resource.resource.attributes}
            self.service = facts["service.name"]
            for scope in of_resource.scope_spans:
                self.spans += [told(span) for span in scope.spans]

    def named(self, name):
        return [span for span in self.spans if span["name"] == name]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def told(span):
    facts = {fact.key: fact.value.string_value or fact.value.int_value for fact in span.attributes}
    took = span.end_time_unix_nano - span.start_time_unix_nano
    return {
        "name": span.name,
        "facts": facts,
        "trace": span.trace_id.hex(),
        "failed": span.status.code == 2,
        "ns": took,
    }


@pytest.fixture(scope="module", params=[0, 1], ids=["alone", "followed"])
def traced(request, tmp_path_factory):
    collector = Collector()
    server = RunningServer(
        tmp_path_factory.mktemp("traced") / "data", processes=request.param + 1, followers=request.param
    )
    server.env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with server, Asking(server.url) as ask:
        yield ask, collector
        server.terminate()
    collector.close()


@pytest.mark.long
def test_a_span_has_route_model_and_status_and_continues_the_clients_trace(traced):
    ask, collector = traced
    model = ask.new_model("traced")
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    answer = ask("POST", f"{model.path}/learn", json={"examples": [example([1, 2], "a")]}, headers=headers)
    assert answer.status_code == 200
    name = "POST /models/{model}/learn"
    eventually(lambda: collector.named(name))
    (span,) = collector.named(name)
    facts = {"http.request.method": "POST", "http.route": "/models/{model}/learn", "hinged.model": "traced"}
    assert span["facts"] == facts | {"http.response.status_code": 200}
    assert (span["trace"], span["failed"], collector.service) == (TRACE, False, "hinged")
    assert span["ns"] > 0


def test_predictions_have_spans_too_wherever_they_are_answered(traced):
    ask, collector = traced
    model = ask.new_model("predicted")
    model.learn(example([1, 2], "a"))
    model.predict([1, 2])
    name = "POST /models/{model}/predict"
    eventually(lambda: collector.named(name))
    assert [span["facts"]["hinged.model"] for span in collector.named(name)] == ["predicted"]


def test_a_span_has_nothing_of_what_the_client_sent(traced):
    ask, collector = traced
    model = ask.new_model("discreet")
    headers = {"authorization": "Bearer hinged_secret-key", "x-secret": "secret-header"}
    ask("POST", f"{model.path}/learn", json={"id": "secret-id", "x": [1, 2], "y": "secret-label"}, headers=headers)
    ask("GET", "/models/secret-unknown!?ticket=secret-ticket", headers=headers)
    ask("GET", "/nowhere/secret-path")
    eventually(lambda: collector.named("GET none"))
    assert b"secret" not in collector.bodies


def test_the_last_spans_are_sent_when_the_server_ends(tmp_path):
    collector = Collector()
    server = RunningServer(tmp_path / "data")
    server.env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
    with server, Asking(server.url) as ask:
        ask("GET", "/models")
        server.terminate()
    assert collector.named("GET /models")
    collector.close()


def test_without_a_collector_nothing_is_traced():
    assert open_spans() is None


def test_a_server_without_the_package_says_so_and_goes_on(monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert open_spans() is None
    assert 'pip install "hinged[otel]"' in caplog.text
