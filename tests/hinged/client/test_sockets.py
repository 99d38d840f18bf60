"""Streams and events of the clients, and `hinged events`, with a real server."""

import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import threading

import pytest

from hinged import AsyncClient, Client, HingedError
from tests.helpers.http_client import BASE, Asking, example
from tests.helpers.server import ROOT, RunningServer
from tests.helpers.stream_client import followed


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("streams") / "data") as server:
        yield server


@pytest.fixture
def client(running):
    with Client(running.url) as client:
        yield client


@pytest.fixture
def model(running):
    with Asking(running.url) as ask:
        yield ask.new_model()


EXAMPLES = [example([k % 5, k % 3], "ab"[k % 2], f"e{k}") for k in range(300)]


def test_a_stream_learns_many_at_once_and_answers_in_order(client, model):
    with client.stream(model.name) as stream:
        answers = [stream.learn([one]) for one in EXAMPLES]
        predicted = stream.predict([{"x": [1, 1]}])
        assert [answer.result()["results"][0]["id"] for answer in answers] == [one["id"] for one in EXAMPLES]
        assert predicted.result()["position"] >= answers[-1].result()["position"]
    assert client.model(model.name)["examples"] == len(EXAMPLES)


def test_a_stream_offers_candidates_and_queries_them(client, model):
    with client.stream(model.name) as stream:
        assert stream.offer([{"id": "c", "x": [1, 1]}]).result()["added"] == 1
        (query,) = stream.query(annotator="ann", n=1).result()["queries"]
        (result,) = stream.learn([{"id": "c", "y": "up", "lease": query["lease"]}]).result()["results"]
        assert result["id"] == "c"


def test_examples_without_an_id_get_an_id(client, model):
    with client.stream(model.name) as stream:
        (result,) = stream.learn([{"x": [1, 1], "y": "up"}]).result()["results"]
        assert not result["id"].startswith("@")


def test_a_refused_frame_does_not_affect_other_frames(client, model):
    with client.stream(model.name) as stream:
        bad, good = stream.learn([{"x": [1], "y": "up"}]), stream.learn([{"x": [1, 1], "y": "up"}])
        with pytest.raises(HingedError, match="expected 2 features") as caught:
            bad.result()
        assert (caught.value.code, caught.value.details) == ("invalid", {"index": 0})
        assert good.result()["results"]


# -- cancelled futures


def test_a_stream_closes_although_a_future_was_cancelled(client, model):
    with client.stream(model.name) as stream:
        stream.learn(EXAMPLES)
        cancelled = [stream.predict([{"x": [1, 1]}]) for _ in range(20)]
        assert [future for future in cancelled if future.cancel()]
        closing = threading.Thread(target=stream.close, daemon=True)
        closing.start()
        closing.join(60)
        assert not closing.is_alive()


def asked(rng, rounds=15, together=40):
    """Draw rounds of requests. Each request is (whether it learns, id, n): its future is cancelled after n more
    requests, or never if n is None.
    """
    number = itertools.count()
    for _ in range(rounds):
        yield [
            (rng.random() < 0.5, f"asked{next(number)}", rng.choice([None, None, 0, 0, 1, 5, together]))
            for _ in range(together)
        ]


def check_answer(learns, name, answer):
    (result,) = answer["results"]
    assert ("duplicate" in result) == learns
    assert result["id"] == name


@pytest.mark.parametrize("seed", range(4))
def test_cancelled_futures_do_not_affect_other_futures(client, model, seed):
    cancelled = 0
    with client.stream(model.name) as stream:
        for requests in asked(random.Random(seed)):
            futures, leaving = [], []
            for k, (learns, name, leaves) in enumerate(requests):
                send = stream.learn if learns else stream.predict
                futures.append(send([example([k, k % 3], "ab"[k % 2], name) if learns else {"id": name, "x": [k, 1]}]))
                leaving += [] if leaves is None else [(k + leaves, futures[-1])]
                for due, future in leaving:
                    if due == k:
                        future.cancel()
            for (learns, name, leaves), future in zip(requests, futures, strict=True):
                if leaves is not None and (future.cancel() or future.cancelled()):
                    cancelled += 1
                else:
                    check_answer(learns, name, future.result())
    assert cancelled
    assert not stream._frames.waiting


@pytest.mark.parametrize("seed", range(4))
def test_cancelled_futures_do_not_affect_other_futures_of_the_async_client(running, model, seed):
    async def main():
        cancelled = 0
        async with AsyncClient(running.url) as client, client.stream(model.name) as stream:
            for requests in asked(random.Random(seed)):
                futures, leaving = [], []
                for k, (learns, name, leaves) in enumerate(requests):
                    send = stream.learn if learns else stream.predict
                    one = example([k, k % 3], "ab"[k % 2], name) if learns else {"id": name, "x": [k, 1]}
                    futures.append(await send([one]))
                    leaving += [] if leaves is None else [(k + leaves, futures[-1])]
                    for due, future in leaving:
                        if due == k:
                            future.cancel()
                for (learns, name, leaves), future in zip(requests, futures, strict=True):
                    if leaves is not None and (future.cancel() or future.cancelled()):
                        cancelled += 1
                    else:
                        check_answer(learns, name, await future)
        assert not stream._frames.waiting
        return cancelled

    assert asyncio.run(main())


def test_cancelled_futures_do_not_hide_the_reason_why_a_stream_ends(client, model):
    with client.stream(model.name) as stream:
        futures = [stream.learn([one]) for one in EXAMPLES[:100]]
        left = {future for future in futures[::3] if future.cancel()}
        client.delete_model(model.name)
        for future in futures:
            if future not in left:
                assert isinstance(future.exception(), HingedError | None)
    assert not stream._frames.waiting


def test_values_that_json_lacks_are_refused_and_leave_no_waiting_future(client, running, model):
    with client.stream(model.name) as stream:
        for x in (object(), float("nan")):
            with pytest.raises((TypeError, ValueError)):
                stream.predict([{"x": [x, 1]}])
        assert stream.predict([{"x": [1, 1]}]).result()["results"]

    async def main():
        async with AsyncClient(running.url) as other, other.stream(model.name) as stream:
            for x in (object(), float("nan")):
                with pytest.raises((TypeError, ValueError)):
                    await stream.predict([{"x": [x, 1]}])
            return await (await stream.predict([{"x": [1, 1]}]))

    assert asyncio.run(main())["results"]


def test_a_stream_to_an_unknown_model_or_a_missing_server_is_refused(client, free_url):
    with pytest.raises(HingedError) as caught:
        client.stream("absent")
    assert (caught.value.code, caught.value.status) == ("not_found", 404)
    with Client(free_url) as nowhere, pytest.raises(HingedError) as caught:
        nowhere.stream("m")
    assert caught.value.code == "unreachable"


def test_a_stream_that_the_server_closes_says_why(client, model):
    with client.stream(model.name) as stream:
        events = stream.events()
        client.delete_model(model.name)
        assert list(events) == []
        with pytest.raises(HingedError, match="was deleted") as caught:
            stream.predict([{"x": [1, 1]}]).result()
        assert (caught.value.code, caught.value.details) == ("closed", {"code": 4404})


def test_a_stream_delivers_events(client, model):
    with client.stream(model.name) as stream:
        events = stream.events(after=0)
        stream.learn(EXAMPLES[:2]).result()
        kinds = [next(events)["kind"] for _ in range(5)]
        assert kinds == ["created", "class_added", "learned", "class_added", "learned"]


def test_the_async_client_has_streams_too(running, model):
    async def main():
        async with AsyncClient(running.url) as client, client.stream(model.name) as stream:
            answers = [await stream.learn([one]) for one in EXAMPLES]
            found = [(await answer)["results"][0]["id"] for answer in answers]
            bad = await stream.predict([{"x": [1]}])
            with pytest.raises(HingedError, match="expected 2 features"):
                await bad
            events = stream.events(after=0)
            first = await anext(events)
            await events.aclose()
            return found, first["kind"]

    assert asyncio.run(main()) == ([one["id"] for one in EXAMPLES], "created")


def test_the_async_client_refuses_like_the_blocking_client(running):
    async def main():
        async with AsyncClient(running.url) as client, client.stream("absent"):
            pass

    with pytest.raises(HingedError) as caught:
        asyncio.run(main())
    assert caught.value.code == "not_found"


def test_events_continue_behind_the_last_event_after_the_server_was_away(tmp_path):
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.create_model("m", **BASE)
        client.learn("m", EXAMPLES[:2])
        events = client.events("m", after=0)
        positions = [next(events)["position"] for _ in range(3)]
        again = threading.Thread(target=lambda: (server.kill(), server.start()))
        again.start()
        positions += [next(events)["position"] for _ in range(2)]
        again.join()
        client.learn("m", EXAMPLES[2:3])
        positions.append(next(events)["position"])
        assert positions == [1, 2, 3, 4, 5, 6]
        client.delete_model("m")
        with pytest.raises(HingedError) as caught:
            next(events)
        assert caught.value.code == "not_found"


def test_the_async_client_delivers_events_too(running, model):
    async def main():
        async with AsyncClient(running.url) as client:
            events = client.events(model.name, after=0)
            found = [(await anext(events))["kind"]]
            await client.learn(model.name, EXAMPLES[:1])
            found += [(await anext(events))["kind"] for _ in range(2)]
            await events.aclose()
            return found

    assert asyncio.run(main()) == ["created", "class_added", "learned"]


@pytest.fixture(scope="module")
def beating(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("beating") / "data", limits={"heartbeat_s": 0.3}) as server:
        yield server


def beats(url, path):
    """Wait for heartbeats of a new stream. By then, streams that were open before have received a heartbeat, too."""
    with followed(url, f"{path}/events") as stream:
        for _ in range(3):
            assert "comment" in stream.block()


def test_heartbeats_are_not_delivered_as_events(beating):
    with Client(beating.url) as client, Asking(beating.url) as ask:
        model = ask.new_model()
        events = client.events(model.name, after=0)
        found = [next(events)["kind"]]
        for one in EXAMPLES[:2]:
            beats(beating.url, model.path)
            client.learn(model.name, [one])
            found += [next(events)["kind"] for _ in range(2)]
        assert found == ["created", *["class_added", "learned"] * 2]


def test_heartbeats_are_not_delivered_as_events_by_the_async_client(beating):
    async def main(name, path):
        async with AsyncClient(beating.url) as client:
            events = client.events(name, after=0)
            found = [(await anext(events))["kind"]]
            await asyncio.to_thread(beats, beating.url, path)
            await client.learn(name, EXAMPLES[:1])
            found += [(await anext(events))["kind"] for _ in range(2)]
            await events.aclose()
            return found

    with Asking(beating.url) as ask:
        model = ask.new_model()
    assert asyncio.run(main(model.name, model.path)) == ["created", "class_added", "learned"]


def test_hinged_events_writes_one_line_for_each_event(running, model):
    model.learn(EXAMPLES[0])
    command = [sys.executable, "-m", "hinged", "events", model.name, "--from", "0", "--url", running.url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ.copy()) as process:
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.terminate()
    assert [line["kind"] for line in lines] == ["created", "class_added", "learned"]
    assert [line["position"] for line in lines] == [1, 2, 3]


def test_hinged_events_of_an_unknown_model_fails_with_one_line(running):
    command = [sys.executable, "-m", "hinged", "events", "absent", "--url", running.url]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert "there is no model 'absent'" in ended.stderr
