import random
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

import hinged
from hinged.service.api.server.exposition import METHODS, Exposition
from hinged.service.edge.middleware import Edge
from hinged.service.edge.streams import Streams
from hinged.service.settings import Settings
from tests.helpers.http_client import AskedModel, example
from tests.helpers.server import ROOT


def scrape(ask, **request):
    answer = ask("GET", "/metrics", **request)
    assert answer.status_code == 200, answer.text
    return answer


def samples(ask, **labels):
    """Return the values of the samples with these labels, by name."""
    families = text_string_to_metric_families(scrape(ask).text)
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if labels.items() <= sample.labels.items()
    }


def requests(ask, method, route, status):
    return samples(ask, method=method, route=route, status=str(status)).get("hinged_requests_total", 0)


def test_the_figures_of_a_model_can_be_scraped(ask):
    model = ask.new_model()
    for i in range(20):
        model.learn(example([i % 3, i % 2], "ab"[i % 2]))
    model.predict([0, 0], [1, 1], [2, 1])
    figures, found = model.figures(), samples(ask, model=model.name)
    assert found["hinged_model_up"] == 1
    assert found["hinged_examples_learned_total"] == 20
    assert found["hinged_predictions_served_total"] == 3
    assert found["hinged_log_position"] == figures["position"]
    assert found["hinged_classes"] == 2
    assert found["hinged_points"] == figures["points"]
    assert found["hinged_support_vectors"] == figures["support_vectors"]
    assert found["hinged_memory_bytes"] == figures["memory_bytes"]
    assert found["hinged_queue_examples"] == found["hinged_queue_requests"] == 0
    assert found["hinged_drifts_total"] == found["hinged_snapshots_failed_total"] == 0
    window = figures["metrics"]["window"]
    for source in ("all", "streamed"):
        found = samples(ask, model=model.name, source=source)
        assert found["hinged_accuracy_ratio"] == pytest.approx(window["accuracy"])
        assert found["hinged_log_loss"] == pytest.approx(window["log_loss"])
        assert found["hinged_brier_score"] == pytest.approx(window["brier"])
        # The sum over the sources is the total, so a query counts no prediction twice.
        assert found.get("hinged_predictions_scored_total") == (19 if source == "streamed" else None)


@pytest.mark.parametrize("classes", [2, 60])
def test_the_support_vectors_of_every_machine_that_answers_are_counted(ask, classes):
    random.seed(0)
    learned = [example([c + random.random(), random.random()], f"c{c}") for _ in range(6) for c in range(classes)]
    parts = {"kernel": {"type": "rbf"}, "features": {"type": "dense", "dim": 2}}
    alone, race = ask.new_model(solver="lasvm"), AskedModel(ask, f"race{classes}")
    assert ask("PUT", race.path, json=parts).status_code == 201
    for model in (alone, race):
        model.learn(*learned)
    found = {model: samples(ask, model=model.name)["hinged_support_vectors"] for model in (alone, race)}
    assert found[alone] == alone.figures()["support_vectors"]
    counted = sum(arm["share"] > 0 for arm in race.figures()["arms"])
    assert counted > 1 or classes > 2
    assert race.figures()["support_vectors"] <= found[race] <= counted * len(learned)
    assert (race.figures()["support_vectors"] < found[race]) == (counted > 1)


def test_queues_and_limits_can_be_scraped(ask):
    model = ask.new_model(points_max=50)
    model.learn(example([0, 1], "a"), example([1, 0], "b"))
    pool = {"examples": [{"id": f"p{k}", "x": [k, 1]} for k in range(3)]}
    assert ask("POST", f"{model.path}/pool", json=pool).status_code == 200
    assert ask("POST", f"{model.path}/queries", json={"n": 2, "annotator": "ann"}).status_code == 200
    ask("POST", f"{model.path}/predict", json={"id": "later", "x": [1, 1]})
    found = samples(ask, model=model.name)
    assert found["hinged_points_max"] == 50
    assert found["hinged_pool_candidates"] == 3
    assert found["hinged_pool_leased"] == 2
    assert found["hinged_pending_predictions"] == 1
    assert found["hinged_snapshot_age_seconds"] > 0
    assert ask("POST", f"{model.path}/snapshot").status_code == 200
    assert samples(ask, model=model.name)["hinged_snapshot_age_seconds"] == 0


def test_disk_use_and_append_times_of_the_store_can_be_scraped(ask):
    before = samples(ask)
    ask.new_model().learn(example([0, 1], "a"))
    found = samples(ask)
    for name in ("hinged_store_append_duration_seconds", "hinged_store_commit_duration_seconds"):
        assert found[f"{name}_count"] > before.get(f"{name}_count", 0)
        assert found[f"{name}_sum"] > 0
        assert found[f"{name}_bucket"] == found[f"{name}_count"]  # the last bucket counts everything
    assert found["hinged_store_bytes"] > 0
    assert found["hinged_store_free_bytes"] > 0


def test_the_version_and_the_open_streams_can_be_scraped(ask):
    assert samples(ask, version=hinged.__version__)["hinged_build_info"] == 1
    model = ask.new_model()
    with ask._http.stream("GET", f"{model.path}/events"):
        found = samples(ask)
    assert found["hinged_open_streams"] == 1
    assert found["hinged_open_streams_max"] == 1000


def test_an_untaught_model_leaves_out_unknown_figures(ask):
    found = samples(ask, model=ask.new_model().name)
    assert found["hinged_examples_learned_total"] == 0
    assert "hinged_accuracy_ratio" not in found


def test_a_deleted_model_is_no_longer_scraped(ask):
    model = ask.new_model()
    assert samples(ask, model=model.name)
    assert ask("DELETE", model.path).status_code == 200
    assert samples(ask, model=model.name) == {}


@pytest.mark.parametrize(
    ("method", "path", "route", "status"),
    [
        ("GET", "/healthz", "/healthz", 200),
        ("GET", "/models/none-such", "/models/{model}", 404),
        ("POST", "/models/another/predict", "/models/{model}/predict", 404),
        ("PATCH", "/healthz", "/healthz", 405),
        ("GET", "/no/such/route", "none", 404),
        ("PROPFIND", "/healthz", "/healthz", 405),
    ],
)
def test_requests_are_counted_by_the_template_of_their_route(ask, method, path, route, status):
    named = method if method in METHODS else "other"
    before = requests(ask, named, route, status)
    for _ in range(3):
        assert ask(method, path).status_code == status
    assert requests(ask, named, route, status) == before + 3
    found = samples(ask, method=named, route=route)
    assert found["hinged_request_duration_seconds_count"] >= 3
    assert found["hinged_request_duration_seconds_sum"] > 0


def test_a_request_that_the_edge_refuses_is_counted_too(ask):
    before = requests(ask, "GET", "none", 400)
    assert ask("GET", "/models", headers={"Host": "evil.example"}).status_code == 400
    assert requests(ask, "GET", "none", 400) == before + 1


def test_an_unexpected_error_counts_as_500():
    counted = []

    async def broken(*_):
        raise RuntimeError("broken")

    async def ask_once():
        scope = {"type": "http", "method": "GET", "headers": [(b"host", b"localhost")]}
        await Edge(broken, Settings(), lambda *seen: counted.append(seen))(scope, None, None)

    with pytest.raises(RuntimeError, match="broken"):
        anyio.run(ask_once)
    assert [seen[:3] for seen in counted] == [("GET", "none", 500)]


def test_the_format_follows_the_accept_header(ask):
    plain = scrape(ask, headers={"Accept": "*/*"})
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    newer = scrape(ask, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert newer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert newer.text.endswith("# EOF\n")


def test_every_metric_has_its_unit_in_its_name_and_a_help_text(ask):
    ask.new_model().learn(example([0, 1], "a"), example([1, 0], "b"))
    for family in text_string_to_metric_families(scrape(ask).text):
        assert family.documentation, family.name
        if family.name.startswith("hinged_") and family.type == "counter":
            assert all(s.name.endswith("_total") for s in family.samples)


def test_each_metric_is_documented(ask):
    text = (ROOT / "docs/reference/metrics.md").read_text()
    ask.new_model().learn(example([0, 1], "a"), example([1, 0], "b"))
    for family in text_string_to_metric_families(scrape(ask).text):
        if family.name.startswith("hinged_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert f"`{name}`" in text, name


def test_each_server_has_its_own_counts():
    one, other = Exposition(Streams(1)), Exposition(Streams(1))
    one.count("GET", "/healthz", 200, 0.1)
    assert b'hinged_requests_total{method="GET"' in one.text()[0]
    assert b'hinged_requests_total{method="GET"' not in other.text()[0]


def test_requests_to_a_new_route_may_be_answered_during_a_scrape():
    exposition = Exposition(Streams(1))
    for status in range(3000):
        exposition.count("GET", "/models", status, 0.001)
    with ThreadPoolExecutor(1) as aside:  # writes where the route reads
        written = aside.submit(exposition.text)
        status = 3000
        while not written.done():
            exposition.count("GET", "/models", status, 0.001)
            status += 1
        assert b'status="2999"' in written.result()[0]
