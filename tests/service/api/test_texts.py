"""Features that are texts or moments, on a real server."""

import httpx
import pytest

from hinged.service.data.features.records import STRING_CHARS_MAX, TEXT_CHARS_MAX
from tests.helpers.changes import NEEDLE, found_in, until_ended
from tests.helpers.http_client import BASE, AskedModel, Asking, example, refusal
from tests.helpers.server import RunningServer

TEXT = {"features": {"type": "text", "warmup": 40}, "kernel": {"type": "linear"}}
COLD, WARM = (
    ["snow and ice", "a cold wind, frost", "ice on the road", "frozen pipes"],
    ["sun and sand", "a hot day", "warm rain"],
)


def weather(n):
    texts = [
        f"{(COLD if k % 2 else WARM)[k % 3]} {('today', 'again', 'at last', 'so far')[k // 2 % 4]} {k}"
        for k in range(n)
    ]
    return [example(text, "cold" if k % 2 else "warm", f"e{k}") for k, text in enumerate(texts)]


def said(model, *xs):
    return [result["scores"] for result in model.predict(*xs)]


def test_a_model_of_texts_learns_them_and_goes_on_to_the_bit(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        model = ask.new_model("texts", **TEXT)
        configuration = model.figures()["configuration"]["features"]
        assert configuration == {"type": "text", "dim": 2**18, "warmup": 40, "warmup_candidates": True}
        assert ask("PUT", model.path, json={**TEXT, "C": 10}).status_code == 200
        model.learn(*weather(60))
        asked = ["ICE, ice!", "sand", "nothing of that"]
        assert [result["prediction"] for result in model.predict(*asked[:2])] == ["cold", "warm"]
        figures = model.figures()
        assert figures["metrics"]["accuracy"] > 0.8
        features = figures["features"]
        assert (features["warmup_left"], features["texts"]) == (0, ["text"])
        assert ask("GET", f"{model.path}/examples/e3").json()["x"] == weather(4)[3]["x"]
        assert ask("GET", f"{model.path}/predict", params={"x": '"frost"'}).json()["results"][0]["prediction"] == "cold"
        before, exported = said(model, *asked), ask("GET", f"{model.path}/export").content
        server.kill()
        server.start()
        assert said(model, *asked) == before
        answer = ask(
            "POST", "/models/texts-again/import", content=exported, headers={"content-type": "application/octet-stream"}
        )
        assert answer.status_code == 201, answer.text
        again = type(model)(ask, "texts-again")
        assert said(again, *asked) == before
        assert ask("POST", f"{model.path}/finish", json={"epochs": 1}).status_code == 200


def test_texts_of_a_pool_are_shown_as_they_are(ask):
    model = ask.new_model(**TEXT)
    candidates = [{"id": e["id"], "x": e["x"]} for e in weather(30)]
    assert ask("POST", f"{model.path}/pool", json={"examples": candidates}).json()["added"] == 30
    assert model.figures()["features"]["words"] > 10  # before any label has come
    (query,) = ask("POST", f"{model.path}/queries", json={"n": 1, "annotator": "ann"}).json()["queries"]
    assert query["x"] in [candidate["x"] for candidate in candidates]
    model.learn({"id": query["id"], "y": "cold", "lease": query["lease"]})


@pytest.mark.parametrize("x", [["a"], {"text": "a"}, 3, None, [1.0], {"indices": [0], "values": [1]}])
def test_a_model_of_texts_refuses_anything_but_texts(ask, x):
    model = ask.new_model(**TEXT)
    assert "x must be a text" in refusal(model.try_predict(x), 422, "invalid")["message"]


def test_limits_of_texts(ask):
    model = ask.new_model(**TEXT)
    assert model.learn(example(TEXT_CHARS_MAX // 2 * "a ", "a"))[0]["duplicate"] is False
    assert (
        f"at most {TEXT_CHARS_MAX} characters"
        in refusal(model.try_predict(TEXT_CHARS_MAX * "ab"), 422, "invalid")["message"]
    )
    named = ask.new_model(features={"type": "named", "columns": {"note": {"type": "text"}}})
    long = (STRING_CHARS_MAX + 1) * "b"
    named.learn(example({"note": long}, "a"))
    error = refusal(named.try_predict({"note": long}, {"other": long}), 422, "invalid")
    assert f"examples[1].x: 'other': a string must have at most {STRING_CHARS_MAX} characters" in error["message"]
    assert error["details"] == {"index": 1}
    wide = ask(
        "PUT",
        "/models/wide",
        json={**TEXT, "features": {"type": "named", "columns_max": 2**20, "columns": {"a": {"type": "text"}}}},
    )
    assert "columns_max must be at most 786432" in refusal(wide, 422, "invalid")["message"]
    kind = ask("PUT", "/models/wide", json={**TEXT, "features": {"type": "named", "columns": {"a": {"type": "date"}}}})
    assert "features.columns.a.type" in refusal(kind, 422, "invalid")["message"]


def test_an_hour_of_the_day_is_learned_whatever_the_day(ask):
    body = {"features": {"type": "named", "warmup": 48}, "kernel": {"type": "linear"}}
    model = ask.new_model(**body)
    moments = [f"2026-{1 + k % 12:02}-{1 + k % 28:02}T{k * 7 % 24:02}:00" for k in range(240)]
    model.learn(
        *(
            example({"when": at, "n": k % 5}, "open" if 9 <= int(at[11:13]) < 17 else "shut")
            for k, at in enumerate(moments)
        )
    )
    answers = model.predict({"when": "2027-08-30T12:15", "n": 1}, {"when": "2027-08-30T03:15:00Z", "n": 1})
    assert [answer["prediction"] for answer in answers] == ["open", "shut"]
    (field,) = [field for field in model.figures()["features"]["fields"] if field["name"] == "when"]
    assert field == {"name": "when", "number": False, "values": 0, "time": True}
    assert model.figures()["configuration"]["features"]["times"] is True


def test_names_of_identifiers_stay_left_out_after_a_crash_and_after_forgetting(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        features = {"type": "named", "warmup": 64}
        kept, other = (ask.new_model(name, features=features, kernel={"type": "rbf"}) for name in ("kept", "other"))
        former = ask.new_model("former", features=features | {"identifiers": False}, kernel={"type": "rbf"})
        examples = [example({"who": f"u{k}", "n": k % 7}, "ab"[k % 7 > 3], f"e{k}") for k in range(90)]
        secret = example({"who": NEEDLE, "n": 3}, "a", "gone")
        for model in (kept, other, former):
            model.learn(*examples[:30], *([secret] if model is kept else []), *examples[30:])
        answer = ask("DELETE", f"{kept.path}/examples/gone")
        assert until_ended(ask, answer.json()["job"])["state"] == "done"
        assert found_in(tmp_path / "data", NEEDLE.encode()) == []
        asked = [{"who": "u3", "n": 2}, {"who": "nobody", "n": 5}]
        figures, answers = kept.figures()["features"], said(kept, *asked)
        assert figures["left_out"] == {"who": 64}
        assert [field["name"] for field in figures["fields"]] == ["n"]
        assert answers == said(other, *asked)
        fields = former.figures()["features"]["fields"]
        assert {"name": "who", "number": False, "values": 90} in fields
        (warning,) = former.figures()["features"]["warnings"]
        assert warning.startswith("'who' has 90 different values in 90 examples: it uses up columns")
        assert warning.endswith("try a model without it")
        server.kill()
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        kept = AskedModel(ask, "kept")
        assert kept.figures()["features"] == figures
        assert said(kept, *asked) == answers
        again = ask("PUT", "/models/former", json=BASE | {"features": features, "kernel": {"type": "rbf"}})
        assert again.status_code == 200  # parts that the body leaves out are taken from the model
        assert again.json()["configuration"]["features"]["identifiers"] is False


def test_words_and_moments_of_a_forgotten_example_leave_no_trace(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        features = {"type": "named", "warmup": 20, "columns": {"note": {"type": "text"}}}
        kept, other = (ask.new_model(name, features=features, kernel={"type": "rbf"}) for name in ("kept", "other"))
        examples = [
            example({"when": f"2026-05-01T{k:02}:30", "note": f"{'xyz'[k % 3]} {k}"}, "ab"[k % 2], f"e{k}")
            for k in range(24)
        ]
        secret = example({"when": "2026-05-01T23:59:59", "note": NEEDLE, NEEDLE: "2026-05-02"}, "a", "gone")
        for model in (kept, other):
            model.learn(*examples[:10], *([secret] if model is kept else []), *examples[10:])
        answer = ask("DELETE", f"{kept.path}/examples/gone")
        assert until_ended(ask, answer.json()["job"])["state"] == "done"
        assert found_in(tmp_path / "data", NEEDLE.encode()) == []
        asked = [{"when": "2026-05-02T10:00", "note": "x 3"}]
        assert said(kept, *asked) == said(other, *asked)


def test_the_inference_protocol_takes_texts_as_bytes(ask):
    model = ask.new_model(**TEXT)
    model.learn(*weather(40))
    (declared,) = ask("GET", f"/v2{model.path}").json()["inputs"]
    assert declared == {"name": "x", "datatype": "BYTES", "shape": [-1, 1]}
    tensor = {"name": "x", "datatype": "BYTES", "shape": [2, 1], "data": ["ice and frost", "hot sand"]}
    answer = ask("POST", f"/v2{model.path}/infer", json={"inputs": [tensor]})
    assert answer.status_code == httpx.codes.OK, answer.text
    assert next(output for output in answer.json()["outputs"] if output["name"] == "prediction")["data"] == [
        "cold",
        "warm",
    ]
    numbers = {"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}
    assert ask("POST", f"/v2{model.path}/infer", json={"inputs": [numbers]}).status_code == httpx.codes.BAD_REQUEST
