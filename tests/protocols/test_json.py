"""The cases of JSONTestSuite (Nicolas Seriot) at every door that reads JSON: what the suite calls JSON is read, and the
rest is refused. All doors agree about the cases that the suite leaves open.
"""

import json
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

import pytest

from hinged.readers.bad_rows import UnreadableRow
from hinged.readers.lines import json_lines
from tests.helpers.holding import held
from tests.helpers.stream_client import opened
from tests.protocols.ways import NAMES, running

LINES = (Path(__file__).parent / "json_cases.txt").read_text().splitlines()
CASES = {name: unquote_to_bytes(text) for name, text in (line.split(" ", 1) for line in LINES)} | {
    "n_structure_100000_opening_arrays": b"[" * 100_000,
    "n_structure_open_array_object": b'[{"":' * 50_000,
    "i_structure_500_nested_arrays": b"[" * 500 + b"]" * 500,
}
PYTHONS = {"n_number_NaN", "n_number_infinity", "n_number_minus_infinity"}
"""Numbers as Python writes them. The server reads them, to say that a number must be finite."""
URL_BYTES_MAX = 60_000
TYPE = {"content-type": "application/json"}
ROWS = b",".join([b'{"x":[0,1]}'] * 2000)
MODEL = NAMES[1]


def is_read(name):
    """Return whether every door reads a case as JSON. Of the open cases, doors read the numbers of any size."""
    return name in PYTHONS or name.startswith(("y_", "i_number_"))


def asked(way, method, path, before, after, text):
    """Return the message of the refusal of a body that contains the text."""
    answer = way(method, f"/models/{MODEL}{path}", content=before + text + after, headers=TYPE)
    assert answer.status_code == 422, answer.text
    return answer.json()["error"]["message"]


def asked_by_query(way, text):
    answer = way("GET", f"/models/{MODEL}/predict?x={quote(text)}")
    assert answer.status_code == (422 if is_utf8(text) else 400), answer.text
    return answer.json()["error"]["message"]


def is_utf8(text):
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


DOORS = {
    "a short body": partial(asked, method="POST", path="/predict", before=b'{"x":[0,1],"what":', after=b"}"),
    "a short body that is all of it": partial(asked, method="POST", path="/learn", before=b"", after=b""),
    "a body the usual way": partial(
        asked, method="POST", path="/predict?min_position=0", before=b'{"x":[0,1],"what":', after=b"}"
    ),
    "x": partial(asked, method="POST", path="/predict", before=b'{"x":', after=b"}"),
    "a long body": partial(
        asked, method="POST", path="/predict", before=b'{"examples":[' + ROWS + b'],"what":', after=b"}"
    ),
    "a body before much white space": partial(asked, method="POST", path="/predict", before=b"", after=b" " * 20_000),
    "a configuration": partial(asked, method="PUT", path="/shadows/other", before=b'{"what":', after=b"}"),
    "a command": partial(asked, method="POST", path="/finish", before=b'{"what":', after=b"}"),
    "a query": asked_by_query,
}


def wrong(found):
    """Return the cases that a door judges otherwise. found: the messages by the name of the case."""
    refused = {name: "nvalid JSON" in message or "must be UTF-8" in message for name, message in found.items()}
    return {name: found[name] for name in found if refused[name] == is_read(name)}


@pytest.fixture(scope="module")
def way(tmp_path_factory):
    with running("alone", tmp_path_factory.mktemp("json")) as way:
        yield way


@pytest.mark.parametrize("door", DOORS)
def test_a_body_is_read_or_refused_and_holds_nobody_up(way, door):
    def found():
        texts = ((n, t) for n, t in CASES.items() if DOORS[door] is not asked_by_query or len(quote(t)) < URL_BYTES_MAX)
        return {name: DOORS[door](way, text=text) for name, text in texts}

    messages, seconds = held(way, found)
    assert wrong(messages) == {}
    assert not any("\n" in message for message in messages.values())
    assert not seconds


@pytest.mark.long
@pytest.mark.parametrize(
    "before", [b'{"op":"predict","ref":"r","x":[0,1],"what":', b'{"examples":[' + ROWS + b'],"what":']
)
def test_a_frame_is_read_or_refused_and_the_socket_stays_open(way, before):
    messages = {}
    with opened(way.url, f"/models/{MODEL}/stream") as socket:
        for name, text in CASES.items():
            frame = before + text + b"}"
            for data in (frame, frame.decode()) if is_utf8(frame) else (frame,):
                socket.raw(data)
                answer = socket.hear()
                assert answer["ok"] is False
                messages[name] = answer["error"]["message"].replace("must be a JSON object: ", "Invalid JSON")
    assert wrong(messages) == {}


def test_what_is_read_is_kept(way):
    """A candidate may be shown as any JSON."""
    for k, (name, text) in enumerate(CASES.items()):
        body = b'{"examples":[{"id":"c%d","x":[0,%d],"show":%b}]}' % (k, k, text)
        answer = way("POST", f"/models/{MODEL}/pool", content=body, headers=TYPE)
        if not is_read(name) or "Infinity" in json.dumps(json.loads(text)) or name in PYTHONS:
            assert answer.status_code == 422, name
        else:
            assert answer.status_code == 200, name
            shown = way("GET", f"/models/{MODEL}/examples/c{k}").json().get("show")
            assert json.dumps(shown) == json.dumps(json.loads(text)), name


def test_a_file_is_read_row_by_row_and_no_row_takes_others_with_it(tmp_path):
    texts = {name: text for name, text in CASES.items() if b"\n" not in text}
    (tmp_path / "rows.jsonl").write_bytes(b"".join(b'{"x":%b}\n' % text for text in texts.values()))
    rows = {name: value for name, (_, _, value) in zip(texts, json_lines(tmp_path / "rows.jsonl"), strict=True)}
    refused = {name for name, value in rows.items() if isinstance(value, UnreadableRow)}
    assert refused == {name for name in texts if not is_read(name)}
    for name in rows.keys() - refused - PYTHONS:
        assert json.dumps(rows[name]["x"]) == json.dumps(json.loads(texts[name]))


@pytest.mark.long
@pytest.mark.parametrize("how", ["processes", "nodes", "nginx"])
def test_bodies_are_read_alike_however_the_server_runs(how, tmp_path):
    with running(how, tmp_path) as way:
        for door in ("a short body", "a long body", "a query"):
            texts = ((n, t) for n, t in CASES.items() if door != "a query" or len(quote(t)) < 2000)
            assert wrong({name: DOORS[door](way, text=text) for name, text in texts}) == {}
