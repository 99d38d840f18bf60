"""The effect of thresholds for a model of two classes, beside its answers as it learned."""

import pytest

from hinged import Client
from hinged.service.model.decisions.margins import bins_of
from tests.helpers.http_client import example, refusal
from tests.helpers.payments import BODY, stream

N = 300


@pytest.fixture(scope="module")
def told(ask):
    """A model without costs, and the score of "fraud" and the label of each example before it was learned."""
    model = ask.new_model(**BODY)
    X, y = stream(N, share=0.2)
    seen = []
    with Client(ask.url) as client:
        for x, label in zip(X.tolist(), y, strict=True):
            predicted = client.predict(model.name, {"x": x})["results"][0]
            (result,) = client.learn(model.name, {"x": x, "y": label})["results"]
            assert result["prediction"] == predicted["prediction"]
            if result["prediction"] is not None:
                scores = predicted["scores"]
                seen.append((scores["fraud"] if "fraud" in scores else -scores["ok"], label))
    return model, seen


def shown(ask, model, query=""):
    answer = ask("GET", f"{model.path}/thresholds{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def row(found, threshold):
    at = found["curve"]["threshold"].index(threshold)
    return {name: found["curve"][name][at] for name in ("right", "false", "missed", "asked", "cost")}


def test_every_threshold_divides_the_newest_predictions_by_their_scores(ask, told):
    model, seen = told
    found = shown(ask, model)
    assert (found["class"], found["other"], found["examples"]) == ("fraud", "ok", len(seen))
    fraud = sum(label == "fraud" for _, label in seen)
    assert found["rules"]["never"]["missed"] == pytest.approx(fraud / len(seen))
    assert found["rules"]["always"]["false"] == pytest.approx(1 - fraud / len(seen))
    ranked = sorted(((int(bins_of(score)), label) for score, label in seen), reverse=True)
    possible = {(0, 0)}
    right = false = 0
    for k, (place, label) in enumerate(ranked):
        right, false = right + (label == "fraud"), false + (label == "ok")
        if k + 1 == len(ranked) or ranked[k + 1][0] != place:
            possible.add((right, false))
    for threshold in found["curve"]["threshold"]:
        one = row(found, threshold)
        assert (round(one["right"] * len(seen)), round(one["false"] * len(seen))) in possible
        assert one["missed"] == pytest.approx(fraud / len(seen) - one["right"])
        assert one["cost"] == pytest.approx(one["false"] + one["missed"])
        assert one["asked"] == 0


def test_the_other_class_has_the_mirrored_curve(ask, told):
    model, _ = told
    fraud, ok = shown(ask, model), shown(ask, model, "?class=ok")
    assert (ok["class"], ok["other"]) == ("ok", "fraud")
    for threshold in (0.05, 0.3, 0.77):
        mine, theirs = row(fraud, threshold), row(ok, round(1 - threshold, 2))
        assert mine["missed"] == pytest.approx(theirs["false"], abs=0.01)
        assert mine["false"] == pytest.approx(theirs["missed"], abs=0.01)


def test_the_costs_of_a_threshold_make_it_the_present_rule(ask, told):
    model, _ = told
    found = shown(ask, model)
    at = found["curve"]["threshold"].index(0.2)
    assert found["curve"]["missed_cost"][at] == 4.0
    costs = {"fraud": {"ok": 4.0}, "ok": {"fraud": 1.0}}
    assert ask("PATCH", model.path, json={"costs": costs}).status_code == 200
    after = shown(ask, model)
    assert after["costs"] == {"missed": 4.0, "false": 1.0, "ask": None}
    assert after["threshold"] == pytest.approx(0.2)
    assert after["rules"]["present"] == row(after, 0.2)
    before = row(found, 0.2)
    assert {name: after["rules"]["present"][name] for name in ("right", "false", "missed")} == {
        name: before[name] for name in ("right", "false", "missed")
    }
    # With a cost of asking, the server asks near the threshold.
    assert ask("PATCH", model.path, json={"costs": costs | {"ask": 0.3}}).status_code == 200
    asking = shown(ask, model)
    assert asking["rules"]["present"]["asked"] > 0
    assert asking["rules"]["present"] == row(asking, 0.2)
    assert asking["rules"]["ask"] == {"right": 0, "false": 0, "missed": 0, "asked": 1, "cost": 0.3}


def test_the_long_memory_counts_once_it_is_older_than_the_window(ask):
    model = ask.new_model(**BODY, costs={"fraud": {"ok": 9}, "ok": {"fraud": 1}})
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(3_000, share=0.1))
        long = client.model(model.name)["metrics"]
    found = shown(ask, model)
    assert found["examples"] == pytest.approx(long["classes"]["fraud"]["long"]["examples"])
    best = long["decisions"]["best_threshold"]
    assert min(found["curve"]["cost"]) >= best["cost"] - 1e-9
    assert found["rules"]["present"]["cost"] == pytest.approx(best["cost"], rel=0.2)
    mirrored = shown(ask, model, "?class=ok")
    assert mirrored["rules"]["present"]["cost"] == pytest.approx(found["rules"]["present"]["cost"])
    assert mirrored["rules"]["present"]["missed"] == pytest.approx(found["rules"]["present"]["false"])


def test_the_class_whose_misses_cost_more_has_the_threshold(ask):
    model = ask.new_model()
    model.learn(*(example([0, k], 0) for k in range(5)), *(example([1, k], 1) for k in range(9)))
    for costs, name in ((None, "0"), ({"0": {"1": 1}, "1": {"0": 9}}, "1"), ({"0": {"1": 2}, "1": {"0": 1}}, "0")):
        assert ask("PATCH", model.path, json={"costs": costs}).status_code == 200
        assert shown(ask, model)["class"] == name


def test_f_beta_weighs_recall_by_the_beta_that_a_request_names(ask, told):
    model, _ = told
    for query, beta in (("", 1.0), ("?beta=0.5", 0.5), ("?class=ok&beta=1000", 1000.0)):
        curve = shown(ask, model, query)["curve"]
        for precision, recall, f in zip(curve["precision"], curve["recall"], curve["f_beta"], strict=True):
            whole = beta**2 * (precision or 0) + recall
            wanted = (1 + beta**2) * (precision or 0) * recall / whole if whole else 0.0
            assert f == pytest.approx(wanted)
    for beta in ("0", "-1", "1001", "nan", "inf", "two", ""):
        error = refusal(ask("GET", f"{model.path}/thresholds?beta={beta}"), 422, "invalid")
        assert "beta" in error["message"]


def test_thresholds_of_other_models_and_classes_are_refused(ask):
    model = ask.new_model()
    assert "knows 0" in refusal(ask("GET", f"{model.path}/thresholds"), 409, "conflict")["message"]
    model.learn(example([0, 1], "a"), example([1, 0], "b"))
    assert shown(ask, model)["examples"] in (0, 1)
    error = refusal(ask("GET", f"{model.path}/thresholds?class=c"), 422, "invalid")
    assert "'a' or 'b', got 'c'" in error["message"]
    model.learn(example([1, 1], "c"))
    assert "knows 3" in refusal(ask("GET", f"{model.path}/thresholds"), 409, "conflict")["message"]
