"""URLs: percent-encoding, UTF-8, dots, slashes and long names have one meaning at all doors, or they are refused."""

import json
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hinged.operations import ExampleOperations
from hinged.operations.base import NO_SEGMENTS
from tests.protocols.ways import NAMES, WAYS, running

MODEL = NAMES[1]
TEXTS = [
    b"%6d", b"%6D", b"a%2Fb", b"m%2F", b"%2F", b"a%5Cb", b"a\\b", b"m%00", b"%4", b"%zz", b"%25", b"%256d", b"%C3%A9",
    b"e%CC%81", b".", b"..", b"%2e%2E", b"../m", b"%2e%2e/m", b"a%2F..%2Fm", b"", b"a%20b", b"a+b", b"m;x=1", b"m%7F",
    b"m%0d%0ax:%20y", b"%E2%80%AEm", b"%EF%BB%BFm", b"m%E2%80%8B", b"%EF%BD%8D", b"%F0%9F%98%80", b"%22", b"<m>",
    b"{model}", b"@1", b"a//b", b"//", b"m" * 70, b"m" * 5_000, b"%6d" * 2_000,
]  # fmt: skip
"""Segments that are UTF-8, in whatever form."""
NO_TEXTS = [
    b"%FF", b"%C0%AF", b"%c0%80", b"%E0%80%AF", b"%F0%80%80%AF", b"%ED%A0%80", b"%ED%A0%BD%ED%B8%80", b"%E2%82",
    b"%F4%90%80%80", b"%FC%80%80%80%80%80", b"m%80", b"%C3%28", b"\xc3\xa9", b"\xe9", b"m\0", b"m\x7f", b"m\tm",
]  # fmt: skip
"""Segments that are not UTF-8 (overlong, surrogates, beyond Unicode, broken off), and bytes that no URL may contain."""
TARGETS = [
    "/models/{}", "/models/{}/predict", f"/models/{MODEL}/examples/{{}}", f"/models/{MODEL}/predict?x={{}}",
    "/models/{}/stream", "/v2/models/{}", "/ui/{}", "/{}", "/models?ticket={}",
]  # fmt: skip


@pytest.fixture(scope="module", params=WAYS)
def way(request, tmp_path_factory):
    with running(request.param, tmp_path_factory.mktemp("urls")) as way:
        yield way


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_not_utf_8_is_refused_and_everything_else_gets_an_answer(way, target):
    before, after = target.encode().split(b"{}")
    lines = b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    for segment in TEXTS + NO_TEXTS:
        ((status, body),) = way.answers(b"GET " + before + segment + after + lines)
        assert (status == 400) >= (segment in NO_TEXTS), segment
        assert status in (200, 307, 400, 401, 404, 405, 422), segment
        assert status < 400 or way.proxied or json.loads(body)["error"], segment


names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
parts = st.sampled_from([".", "..", "/", "%2F", "%", "a", "b", "?", "#", "\\", "\u00e9", "e\u0301", " ", "+", ";"])


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names | st.lists(parts, min_size=1, max_size=4).map("".join))
@example(name="a/")
@example(name="/")
@example(name="a//")
@example(name="..")
@example(name="../b")
@example(name="%2F")
@example(name="a b")
@example(name="\ufffd")
def test_an_id_that_is_learned_is_found_and_forgotten_and_no_other(way, name):
    """Another decoder may take the id for one of its kin."""
    kin = {name, f"{name}/", name.rstrip("/"), name.strip("/"), unquote(name), name.replace("+", " "), "a", "\ufffd"}
    learned, paths = set(), {}
    for each in sorted(kin):
        answer = way("POST", f"/models/{MODEL}/learn", json={"id": each, "x": [len(each), 0], "y": "p"})
        if answer.status_code == 422:
            assert each in NO_SEGMENTS or not each.isprintable() or each.startswith("@")
            continue
        assert answer.status_code in (200, 410)  # 410: forgotten earlier
        paths[each] = ExampleOperations.example.path_for(model=MODEL, example=each)
        if answer.status_code == 200 and not answer.json()["results"][0]["duplicate"]:
            learned.add(each)
    shown = {
        each: answer.json()["id"] for each, path in paths.items() if (answer := way("GET", path)).status_code == 200
    }
    assert all(each == given for each, given in shown.items())
    assert shown.keys() >= learned
    if name in shown:
        assert way("DELETE", paths[name]).status_code in (200, 202)
        assert {each for each, path in paths.items() if way("GET", path).status_code == 200} == shown.keys() - {name}
