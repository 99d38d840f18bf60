"""`hinged serve --processes`: equal processes at one port. Each process owns some models."""

import json
import os
import re
import signal
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError

from hinged.client import Client
from hinged.service.api import ROUTES
from hinged.service.api.whole import ProcessAnswer, put_readiness
from hinged.service.edge.keys import create_key
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.divided_server import LEARNED, ONE, TWO, line_taken_by, processes_of, standing_still, taken_by
from tests.helpers.http_client import BASE, Asking, bearer, example, refusal
from tests.helpers.server import PATIENCE_S, PLAIN, RunningServer, ended, eventually
from tests.helpers.stream_client import granted, hear_all, opened


@pytest.fixture(scope="module", params=[0, 1])
def server(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("processes")
    with RunningServer(folder / "data", processes=2, followers=request.param) as server:
        with Asking(server.url) as ask:
            for name in (ONE[0], TWO[0]):
                ask.new_model(name).learn(*LEARNED)
        yield server


@pytest.fixture(params=[1, 2])
def taken(server, request):
    """A connection that a known process has accepted. Each test runs once for each of the two processes."""
    with taken_by(server, request.param) as ask:
        yield ask


def fresh(server, method, path, **request):
    """Return an answer over a new connection, which any free process accepts."""
    with httpx.Client(timeout=PATIENCE_S, verify=PLAIN) as http:
        return http.request(method, server.url + path, **request)


def unix_sockets_of(pid):
    """Return the entries of a process that have a path in the system's table of Unix sockets."""
    held = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    return [line for line in lines if f"socket:[{line.split()[6]}]" in held and "/hinged-" in line]


def learned(ask, name, one):
    answer = ask("POST", f"/models/{name}/learn", json={"examples": [one]})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]


def test_any_process_answers_for_all_models(taken):
    for name in (ONE[1], TWO[1]):
        taken("PUT", f"/models/{name}", json=BASE)
        taken("POST", f"/models/{name}/learn", json={"examples": LEARNED})
    for name in (ONE[1], TWO[1]):
        assert learned(taken, name, LEARNED[3])["duplicate"] is True
        assert taken("GET", f"/models/{name}").json()["examples"] == 20
        assert taken("POST", f"/models/{name}/predict", json={"examples": [{"x": [1, 1]}]}).status_code == 200
        assert taken("GET", f"/v2/models/{name}").json()["name"] == name
        assert taken("DELETE", f"/models/{name}").status_code == 200
        refusal(taken("GET", f"/models/{name}"), 404, "not_found")


def test_requests_about_the_whole_server_are_refused_like_by_a_single_process(taken):
    for path, (operation, _) in ROUTES.of_all.items():
        if not operation.probe:  # probes accept any query
            refusal(taken("GET", f"{path}?no=such"), 422, "invalid")
    assert put_readiness(ProcessAnswer(1, 500, b"{}"), [ProcessAnswer(2, 200, b'{"models": {}}')]) is None


def test_lists_hold_the_models_of_all_processes(taken):
    everything = sorted((ONE[0], TWO[0]))
    for path in ("/models", "/models/", "/overview"):
        assert [model["model"] for model in taken("GET", path).json()["models"]] == everything
    assert refusal(taken("GET", "/models?colour=red"), 422, "invalid")
    refusal(taken("POST", "/models", json={}), 405, "method_not_allowed")
    refusal(taken("GET", "/models", headers={"host": "evil.example"}), 400, "bad_request")
    ready = taken("GET", "/readyz")
    assert (ready.status_code, ready.json()["models"]["serving"]) == (200, 2)
    assert taken("GET", "/v2/health/ready").json() == {"ready": True}
    assert taken("GET", "/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_metrics_show_each_process(taken, accept):
    answer = taken("GET", "/metrics", headers={"accept": accept})
    lines = answer.text.splitlines()
    assert 'hinged_process_up{process="1"} 1.0' in lines
    for number, name in ((1, ONE[0]), (2, TWO[0])):
        (position,) = (line for line in lines if line.startswith("hinged_log_position{") and f'"{name}"' in line)
        assert f'process="{number}"' in position
    assert all('process="' in line for line in lines if not line.startswith("#"))
    heads = [line for line in lines if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    assert (lines[-1] == "# EOF") == ("openmetrics" in answer.headers["content-type"]) == bool(accept)


def test_no_client_is_redirected_to_an_address_that_only_this_machine_reaches(server, taken):
    for name in (ONE[0], TWO[0]):
        assert taken("GET", f"/models/{name}", headers={"prefer": "redirect"}).status_code == 200
    with Client(server.url) as client:
        for name in (ONE[0], TWO[0]):
            client.learn(name, [{"id": "from-python", "x": [1, 2], "y": "a"}])


@pytest.mark.parametrize("number", [1, 2])
def test_streams_go_to_the_owner(server, number):
    for name in (ONE[0], TWO[0]):
        path, line = f"/models/{name}", line_taken_by(server, number)
        with line, opened(server.url, f"{path}/stream", sock=line, open_timeout=PATIENCE_S) as socket:
            assert granted(socket.ask("learn", examples=[example([1.0, 2.0], "a", f"s{number}")]))["results"]
        with line_taken_by(server, number) as line:
            line.sendall(f"GET {path}/events?from=0 HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            with line.makefile("rb") as lines:
                assert lines.readline().split()[1] == b"200"
                assert json.loads(next(text[5:] for text in lines if text.startswith(b"data:")))["position"] == 1


def test_no_list_hides_that_a_process_is_missing(server):
    pids = processes_of(server)
    with taken_by(server, 1) as ask:
        os.kill(pids[2], signal.SIGKILL)
        eventually(lambda: ended(pids[2]))
        refusal(ask("GET", "/models"), 503, "unavailable")
        assert ask("GET", "/readyz").status_code == 503
        assert ask("GET", "/v2/health/ready").status_code == 400
        assert 'hinged_process_up{process="2"} 0.0' in ask("GET", "/metrics").text
        answer = ask("GET", f"/models/{TWO[0]}")
        refusal(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        assert learned(ask, ONE[0], example([1.0, 2.0], "a", "beside"))["duplicate"] is False
        eventually(lambda: ask("GET", f"/models/{TWO[0]}").status_code == 200)
        assert learned(ask, TWO[0], LEARNED[3])["duplicate"] is True
        eventually(lambda: ask("GET", "/readyz").status_code == 200)
        assert len(ask("GET", "/models").json()["models"]) == 2


def test_a_request_whose_owner_is_killed_ends_with_its_connection(server):
    pids = processes_of(server)
    with taken_by(server, 1) as ask:
        with standing_still(pids[2]):
            answers = []

            def asking():
                with pytest.raises(httpx.TransportError):
                    answers.append(ask("GET", f"/models/{TWO[0]}"))

            thread = threading.Thread(target=asking)
            thread.start()
            thread.join(0.3)
            os.kill(pids[2], signal.SIGKILL)
        thread.join(PATIENCE_S)
        assert not answers
        eventually(lambda: ask("GET", "/readyz").status_code == 200)


@pytest.mark.long
def test_a_socket_whose_owner_is_killed_ends_and_can_be_opened_again(server):
    path = f"/models/{TWO[0]}/stream"
    with line_taken_by(server, 1) as line, opened(server.url, path, sock=line, open_timeout=PATIENCE_S) as socket:
        assert granted(socket.ask("learn", examples=[example([1.0, 2.0], "a", "by-socket")]))
        os.kill(processes_of(server)[2], signal.SIGKILL)
        with pytest.raises(ConnectionClosedError):  # without a close frame, because its process is gone
            hear_all(socket)
    eventually(lambda: fresh(server, "GET", "/readyz").status_code == 200)
    with opened(server.url, path, open_timeout=PATIENCE_S) as socket:
        answer = granted(socket.ask("learn", examples=[example([1.0, 2.0], "a", "by-socket")]))
        assert answer["results"][0]["duplicate"] is True


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with keys, and the text of a key for some models."""
    folder = tmp_path_factory.mktemp("guarded")
    admin = create_key(folder / "keys.json", "admin", "admin")
    bound = create_key(folder / "keys.json", "bound", "reader", [f"{ONE[0]}", f"{TWO[0]}"])
    with RunningServer(folder / "data", processes=2, keys_file=folder / "keys.json", log_format="json") as server:
        for name in (ONE[0], ONE[1], TWO[0]):
            made = fresh(server, "PUT", f"/models/{name}", json=BASE, headers=bearer(admin))
            assert made.status_code == 201, made.text
        yield server, bearer(bound), bearer(admin)


def test_a_key_that_one_process_makes_or_revokes_counts_at_every_process(guarded):
    server, _, admin = guarded
    with taken_by(server, 1) as ask:
        made = ask("POST", "/keys", json={"name": "new", "role": "reader"}, headers=admin)
        assert made.status_code == 201, made.text
    key = bearer(made.json()["key"])
    for number in (1, 2):
        with taken_by(server, number) as ask:
            assert ask("GET", "/key", headers=key).json()["name"] == "new"
    with taken_by(server, 2) as ask:
        assert ask("DELETE", "/keys/new", headers=admin).status_code == 200
    for number in (1, 2):
        with taken_by(server, number) as ask:
            assert ask("GET", "/key", headers=key).status_code == 401


def test_keys_decide_what_each_process_shows(guarded):
    server, bound, _ = guarded
    for number in (1, 2):
        with taken_by(server, number) as ask:
            refusal(ask("GET", "/models"), 401, "unauthenticated")
            assert [m["model"] for m in ask("GET", "/models", headers=bound).json()["models"]] == sorted(
                (ONE[0], TWO[0])
            )
            refusal(ask("GET", f"/models/{TWO[0]}"), 401, "unauthenticated")
            refusal(ask("GET", "/metrics", headers=bound), 403, "forbidden")
            assert ask("GET", "/readyz").status_code == 200


def test_without_its_key_file_the_server_answers_nothing(guarded, tmp_path):
    server, bound, _ = guarded
    keys = Path(server.env["HINGED_KEYS_FILE"])
    for number in (1, 2):
        with taken_by(server, number) as ask:
            away = keys.rename(tmp_path / "keys.json")
            for path in ("/models", "/overview", "/metrics"):
                refusal(ask("GET", path, headers=bound), 503, "unavailable")
            away.rename(keys)
            assert ask("GET", "/models", headers=bound).status_code == 200


def test_each_line_of_the_log_names_its_process(server, guarded):
    lines = [json.loads(line) for line in guarded[0].log.read_text().splitlines()]
    assert {line.get("process_number") for line in lines} == {None, 1, 2}
    (first,) = (line["message"] for line in lines if "process_number" not in line)
    assert first.startswith("hinged ")
    assert ", 2 processes, " in first
    for number in (1, 2):
        assert f" INFO process {number}: hinged." in server.log.read_text()


def test_a_ticket_of_any_process_is_valid_at_the_owner_once(guarded):
    server, bound, _ = guarded
    for number in (1, 2):
        with taken_by(server, number) as ask, taken_by(server, 3 - number) as other:
            for path in (f"/models/{ONE[0]}", f"/models/{TWO[0]}", "/models", "/overview"):
                ticket = ask("POST", "/tickets", headers=bound).json()["ticket"]
                assert other("GET", path, params={"ticket": ticket}).status_code == 200, path
                refusal(ask("GET", path, params={"ticket": ticket}), 401, "unauthenticated")
            given = ask("POST", "/tickets", headers=bound).json()["ticket"]
            refusal(other("GET", f"/models/{ONE[1]}", params={"ticket": given}), 403, "forbidden")
            refusal(other("GET", "/models", params={"ticket": given[:-3] + "AAA"}), 401, "unauthenticated")


@pytest.mark.long
def test_a_server_that_stops_in_order_leaves_nothing_running_and_goes_on_with_everything(tmp_path):
    with RunningServer(tmp_path / "data", processes=2) as server:
        with Asking(server.url) as ask:
            for name in (ONE[0], TWO[0]):
                ask.new_model(name).learn(*LEARNED)
        processes = processes_of(server).values()
        assert server.terminate() == 0
        assert all(map(ended, processes))
        server.start(from_nothing=True)  # unlike in the other tests, its processes are not forked
        with Asking(server.url) as ask:
            for name in (ONE[0], TWO[0]):
                assert learned(ask, name, LEARNED[3])["duplicate"] is True
        processes = processes_of(server).values()
        folders = {line.split()[-1] for pid in processes for line in unix_sockets_of(pid)}
        server.kill()
        server.start(wait=False)  # the earlier processes may still drain and answer
        eventually(lambda: all(map(ended, processes)))
        assert folders
        assert not any(Path(folder).exists() for folder in folders)
        server.wait_until_ready()
        with Asking(server.url) as ask:
            for name in (ONE[0], TWO[0]):
                assert learned(ask, name, LEARNED[19])["duplicate"] is True


@pytest.mark.long
def test_a_process_that_cannot_start_again_is_retried_while_the_others_serve(tmp_path):
    with RunningServer(tmp_path / "data", processes=2, shutdown_s=1) as server:
        with Asking(server.url) as ask:
            for name in (ONE[0], TWO[0]):
                ask.new_model(name).learn(*LEARNED)
        store = tmp_path / "data" / "worker-2-of-2"
        aside = store.rename(tmp_path / "aside")
        store.write_text("no folder")
        os.kill(processes_of(server)[2], signal.SIGKILL)
        eventually(lambda: server.log.read_text().count("it cannot begin") >= 2)
        with Asking(server.url) as ask:  # accepted by the process that runs
            assert learned(ask, ONE[0], LEARNED[3])["duplicate"] is True
            refusal(ask("GET", f"/models/{TWO[0]}"), 503, "unavailable")
            store.unlink()
            aside.rename(store)
            eventually(lambda: ask("GET", "/readyz").status_code == 200)
            assert learned(ask, TWO[0], LEARNED[3])["duplicate"] is True


@pytest.mark.parametrize(
    ("there", "processes", "said"),
    [
        (["worker-1-of-2"], 1, "HINGED_PROCESSES must be at least 2"),
        (["worker-1-of-3"], 2, "HINGED_PROCESSES must be at least 3"),
        (["worker-1-of-2", "."], 2, "holds several stores: one not divided and one divided by 2"),
        (["worker-1-of-2", "worker-1-of-3"], 3, "holds several stores"),
    ],
)
def test_stores_with_missing_owners_are_left_alone(tmp_path, there, processes, said):
    folder = tmp_path / "data"
    for name in there:
        SQLiteStore(folder / name).close()
    before = sorted(folder.rglob("*"))
    code, words = RunningServer(folder, processes=processes).run()
    assert code == 1
    (line,) = words.splitlines()
    assert said in line
    assert sorted(folder.rglob("*")) == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"processes": 1}, {"processes": 2, "followers": 1}),
        ({"processes": 2}, {"processes": 3}),
        ({"processes": 2}, {"processes": 3, "followers": 1}),
    ],
)
def test_a_store_keeps_its_division_under_any_sufficient_number_of_processes(tmp_path, first, second):
    with RunningServer(tmp_path / "data", **first) as server:
        with Asking(server.url) as ask:
            for name in (ONE[0], TWO[0]):
                ask.new_model(name).learn(*LEARNED)
        assert server.terminate() == 0
    with RunningServer(tmp_path / "data", **second) as server:
        for name in (ONE[0], TWO[0]) * 3:
            learned_again = fresh(server, "POST", f"/models/{name}/learn", json={"examples": [LEARNED[3]]})
            assert learned_again.json()["results"][0]["duplicate"] is True
            predicted = fresh(server, "POST", f"/models/{name}/predict", json={"examples": [{"x": [1, 1]}]})
            assert predicted.status_code == 200
        assert len(fresh(server, "GET", "/models").json()["models"]) == 2


@pytest.mark.long
def test_a_store_divided_by_one_is_the_store_of_a_single_process(tmp_path):
    SQLiteStore(tmp_path / "data" / "worker-1-of-1").close()
    for processes in (1, 2):
        with RunningServer(tmp_path / "data", processes=processes) as server:
            made = fresh(server, "PUT", f"/models/m{processes}", json=BASE)
            assert made.status_code == 201, made.text
            assert server.terminate() == 0
    with closing(SQLiteStore(tmp_path / "data" / "worker-1-of-1")) as store:
        assert store.models() == ["m1", "m2"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"node": "http://127.0.0.1:1", "store": "redis://127.0.0.1:1", "followers": 1}, "HINGED_NODE"),
        ({"keys_file": "/nowhere.json"}, "/nowhere.json"),
        ({"host": "0.0.0.0"}, "there are no keys"),  # noqa: S104
    ],
)
def test_settings_that_contradict_several_processes_are_refused_in_a_sentence(tmp_path, settings, said):
    code, words = RunningServer(tmp_path / "data", processes=2, **settings).run()
    assert code == 1
    (line,) = words.splitlines()
    assert said in line
    assert not (tmp_path / "data").exists()


def test_a_refusal_to_start_of_a_process_ends_the_server(tmp_path):
    server = RunningServer(tmp_path / "data", processes=2, default_model='{"kernel": {}}')
    code, words = server.run()
    assert code == 1
    assert re.search(r"process [12]: .* it cannot begin: configuration: kernel.type is missing", words)


def test_a_body_that_takes_too_long_is_refused_like_by_its_owner(tmp_path):
    with RunningServer(tmp_path / "data", processes=2, request_s=0.5) as server:
        with Asking(server.url) as ask:
            for name in (ONE[0], TWO[0]):
                ask("PUT", f"/models/{name}", json=BASE)
        said = {}
        for name in (ONE[0], TWO[0]):
            with line_taken_by(server, 1) as line, line.makefile("rb") as answer:
                line.sendall(f"POST /models/{name}/learn HTTP/1.1\r\nhost: localhost\r\n".encode())
                line.sendall(b"content-type: application/json\r\ncontent-length: 30\r\n\r\n{")
                said[name] = re.sub(rb"date: .*\r\n", b"", answer.read())
        assert said[ONE[0]].startswith(b"HTTP/1.1 408 ")
        assert sorted(said[ONE[0]].lower().split(b"\r\n")) == sorted(said[TWO[0]].lower().split(b"\r\n"))


def test_a_key_that_one_process_makes_or_revokes_counts_at_once_in_all_processes(tmp_path):
    keys = tmp_path / "keys.json"
    admin = create_key(keys, "root", "admin")
    with (
        RunningServer(tmp_path / "data", processes=2, keys_file=keys) as server,
        taken_by(server, 1) as first,
        taken_by(server, 2) as second,
    ):

        def status(ask, key, method="GET", path="/key"):
            return ask(method, path, headers=bearer(key)).status_code

        for maker, other in ((first, second), (second, first)):
            body, headers = {"name": "ann", "role": "reader"}, bearer(admin)
            key = maker("POST", "/keys", json=body, headers=headers).json()["key"]
            assert [status(ask, key) for ask in (other, maker)] == [200, 200]
            assert status(maker, admin, "DELETE", "/keys/ann") == 200
            assert [status(ask, key) for ask in (other, maker)] == [401, 401]
