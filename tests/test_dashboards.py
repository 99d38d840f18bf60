"""The Grafana dashboard and the Prometheus rules name only metrics and labels that the server exports."""

import json
import re

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.helpers.http_client import Asking, example
from tests.helpers.server import ROOT, RunningServer

DASHBOARD = json.loads((ROOT / "docker" / "grafana" / "hinged.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALERTS = yaml.safe_load((ROOT / "docker" / "prometheus" / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
METRIC = re.compile(r"\b(?:hinged|process)_\w+")
ADDED = {"job", "instance", "le"}
"""Labels that Prometheus adds when it scrapes, and the label of a histogram's buckets."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The labels of each metric of a server with a model that has learned."""
    with RunningServer(tmp_path_factory.mktemp("scraped") / "data") as server, Asking(server.url) as ask:
        model = ask.new_model()
        for k in range(20):
            model.learn(example([k % 3, k % 2], "ab"[k % 2]))
        found = {}
        for family in text_string_to_metric_families(ask("GET", "/metrics").text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions():
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("name", "expression"), list(expressions()))
def test_the_server_exports_each_metric_of_an_expression_with_its_labels(exported, name, expression):
    names = METRIC.findall(expression)
    assert names, name
    for metric in names:
        assert metric in exported, metric
    known = set().union(ADDED, *(exported[metric] for metric in names))
    asked = re.findall(r'(\w+)\s*=~?\s*"', expression)
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        asked += [label.strip() for label in group.split(",")]
    assert set(asked) <= known
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")


def test_legends_and_summaries_show_only_labels_that_exist(exported):
    for panel in PANELS:
        for target in panel["targets"]:
            (metric, *_) = METRIC.findall(target["expr"])
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert label in exported[metric], panel["title"]
    for rule in RULES:
        known = ADDED.union(*(exported[metric] for metric in METRIC.findall(rule["expr"])))
        for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
            assert label in known, rule["alert"]


def test_the_dashboard_is_valid_and_its_panels_do_not_overlap():
    assert DASHBOARD["title"] == "hinged"
    assert DASHBOARD["schemaVersion"] >= 39
    assert "id" not in DASHBOARD  # Grafana assigns the id
    assert len(PANELS) > 15
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    source = {"type": "prometheus", "uid": "${datasource}"}
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in PANELS:
        assert panel["type"] in ("timeseries", "stat")
        assert panel["datasource"] == source
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert [target["refId"] for target in panel["targets"]] == list("ABCD"[: len(panel["targets"])])
        assert all(target["datasource"] == source for target in panel["targets"])
    known = {variable["name"] for variable in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$(\w+)", " ".join(t["expr"] for p in PANELS for t in p["targets"]))) <= known


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_alert_has_a_severity_a_summary_and_a_description(rule):
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Hinged[A-Z]\w+", rule["alert"])
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"]
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
    assert re.search(r"[<>=]", rule["expr"])
