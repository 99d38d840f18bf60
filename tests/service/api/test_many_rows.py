"""More rows than one request may have. The client sends them in order, in requests that the server accepts."""

import asyncio
import random

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from hinged import AsyncClient, Client, HingedError
from hinged.client import batch
from hinged.client.batch import RowsSent
from hinged.service.data.batches import read_batch
from hinged.service.data.configuration import new_configuration
from hinged.service.data.slices import at_once
from hinged.service.settings import Settings
from tests.helpers.http_client import Asking
from tests.helpers.server import RunningServer

BODY = {"solver": "bsgd", "budget": 20, "features": {"type": "dense", "dim": 3}}
MANY = 25_001


def rows(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, ["pos" if x > 0 else "neg" for x in X[:, 0]], [f"r{k}" for k in range(n)]


@pytest.fixture
def lossy(monkeypatch):
    """Drop the answers to three of ten successful requests. Return the paths of these requests."""
    rng, send, asked = random.Random(0), httpx.HTTPTransport.handle_request, []

    def handle_request(self, request):
        response = send(self, request)
        if request.method == "POST" and response.status_code == 200:
            asked.append(request.url.path)
            if rng.random() < 0.3:
                raise httpx.ReadError("lost")
        return response

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle_request)
    return asked


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server that accepts only small requests."""
    folder = tmp_path_factory.mktemp("small")
    with (
        RunningServer(folder / "data", batch_examples_max=70, body_bytes_max=4_000) as server,
        Asking(server.url) as ask,
    ):
        yield ask


@pytest.mark.long
def test_a_hundred_thousand_rows_are_learned_offered_and_predicted_by_one_call(ask):
    X, y, ids = rows(100_000)
    model = ask.new_model(**BODY)
    with Client(ask.url) as client:
        learned = client.learn_rows(model.name, X, y)
        assert len(learned["results"]) == model.figures()["examples"] == 100_000
        assert learned["position"] == model.figures()["position"]
        predicted = client.predict_rows(model.name, X[:MANY])["results"]
        assert [result["prediction"] for result in predicted[-5:]] == [
            result["prediction"] for result in model.predict(*X[MANY - 5 : MANY].tolist())
        ]
        offered = client.offer_rows(model.name, X[:MANY], [f"c{name}" for name in ids[:MANY]])
        assert (offered["added"], offered["size"], offered["dropped"]) == (MANY, 10_000, MANY - 10_000)


@pytest.mark.parametrize("form", [np.array, csr_matrix], ids=["an array", "a sparse matrix"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_server_that_takes_fewer_rows_gets_fewer_and_learns_the_same(ask, small, form, asynchronous):
    X, y, ids = rows(500)
    whole, parts = ask.new_model(**BODY), small.new_model(**BODY)
    with Client(ask.url) as client:
        told = client.learn_rows(whole.name, form(X), y, ids)["results"]

    async def learn():
        async with AsyncClient(small.url) as client:
            return (await client.learn_rows(parts.name, form(X), y, ids))["results"]

    if asynchronous:
        assert asyncio.run(learn()) == told
    else:
        with Client(small.url) as client:
            assert client.learn_rows(parts.name, form(X), y, ids)["results"] == told
    assert parts.figures()["examples"] == 500
    assert parts.predict(*X[:20].tolist()) == whole.predict(*X[:20].tolist())


@pytest.mark.parametrize("given_ids", [True, False])
def test_if_answers_are_lost_nothing_is_learned_twice(small, lossy, given_ids):
    X, y, ids = rows(800)
    model = small.new_model(**BODY)
    with Client(small.url) as client:
        results = client.learn_rows(model.name, X, y, ids if given_ids else None)["results"]
        assert len(lossy) > 12, "more than the parts of the rows"
    assert len(results) == model.figures()["examples"] == 800
    assert len({result["id"] for result in results}) == 800


def test_an_error_names_a_rows_place_among_all_rows_and_earlier_requests_stay(small):
    X, y, ids = rows(300)
    X[200] = 1e300
    model = small.new_model(**BODY)
    with Client(small.url) as client:
        with pytest.raises(HingedError) as caught:
            client.learn_rows(model.name, X, y, ids)
        done = caught.value.details["rows_done"]
        assert 0 < done <= 200 == caught.value.details["index"]
        assert model.figures()["examples"] == done
        X[200] = 1.0
        results = client.learn_rows(model.name, X, y, ids)["results"]
    assert [result["duplicate"] for result in results] == [True] * done + [False] * (300 - done)
    assert model.figures()["examples"] == 300


def test_inconsistent_rows_are_refused_before_the_first_request(small):
    X, y, ids = rows(200)
    model = small.new_model(**BODY)
    with Client(small.url) as client:
        for wrong in ((X, y[:-1], ids), (X, y, ids[:-1]), (X[:, 0], y, ids)):
            with pytest.raises(ValueError, match="must have"):
                client.learn_rows(model.name, *wrong)
        with pytest.raises(HingedError, match="got 0"):
            client.learn_rows(model.name, X[:0], [])
    assert model.figures()["examples"] == 0


@pytest.mark.long
@settings(max_examples=50)
@given(st.data(), st.integers(1, 40), st.integers(1, 12), st.integers(1, 600), st.booleans())
def test_the_parts_of_a_batch_are_its_rows_in_order_each_once(data, n, rows_max, bytes_max, sparse):
    X = np.arange(3.0 * n).reshape(n, 3) % 7
    labels = data.draw(st.lists(st.sampled_from(["a", True, 1, "1"]), min_size=n, max_size=n))
    ids = [f"i{k}" for k in range(n)]
    configuration = new_configuration(
        '{"kernel": {"type": "linear"}, "features": {"type": "dense", "dim": 3}}', Settings()
    )
    found, begin = ([], [], []), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "BYTES_MAX", bytes_max)
        whole = RowsSent(csr_matrix(X) if sparse else X, labels, ids)
        while begin < n:
            end = whole.end(begin, rows_max)
            assert begin < end <= begin + rows_max
            part = at_once(read_batch(whole.packed(begin, end), configuration, Settings(), labelled=True))
            dense = np.zeros((end - begin, 3))
            dense[np.repeat(np.arange(end - begin), np.diff(part.rows.indptr)), part.rows.indices] = part.rows.values
            for whole_list, more in zip(found, (dense.tolist(), part.labels, part.ids), strict=True):
                whole_list.extend(more)
            begin = end
    assert found[0] == X.tolist()
    assert [(type(label), label) for label in found[1]] == [(type(label), label) for label in labels]
    assert found[2] == ids
