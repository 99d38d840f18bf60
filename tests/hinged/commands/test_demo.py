import asyncio
import io
import logging

import numpy as np
import pytest
from rich.console import Console

from hinged import Client
from hinged.commands.demo import COMPILED, EARLY, LATE, UNSURE, Unsure, batch_standing, load_digits
from hinged.service.engine import kernels
from tests.helpers.command import hinged
from tests.helpers.fixtures import server_with, speaking

server = server_with()
client = speaking(Client)


def test_the_digits_have_a_fixed_order_and_the_last_quarter_is_held_out():
    digits, again = load_digits(), load_digits()
    assert digits.X_train.shape == (1347, 64)
    assert digits.X_test.shape == (450, 64)
    assert 0.0 <= digits.X_train.min() < digits.X_train.max() <= 1.0
    for name in ("X_train", "y_train", "X_test", "y_test"):
        assert np.array_equal(getattr(digits, name), getattr(again, name))


def test_three_digits_appear_late_in_the_stream_and_no_digit_is_lost():
    digits, stream = load_digits(), load_digits().appearing()
    late = np.flatnonzero(np.isin(stream.y_train, LATE))
    assert late[0] == EARLY
    assert sorted(map(bytes, digits.X_train)) == sorted(map(bytes, stream.X_train))
    labels = {bytes(x): y for x, y in zip(digits.X_train, digits.y_train, strict=True)}
    assert all(labels[bytes(x)] == y for x, y in zip(stream.X_train, stream.y_train, strict=True))


def test_the_batch_svm_is_accurate_once_it_is_fitted_to_all_digits_and_not_before():
    standing = batch_standing(load_digits().appearing())
    assert standing.held_out_accuracy > 0.98
    assert standing.recent_accuracy < 0.9
    assert 0 < standing.support_vectors < 1347


def test_the_demonstration_understands_how_far_the_compiler_is(caplog, monkeypatch):
    monkeypatch.setattr(kernels, "TOLD_EVERY_S", 0.0)
    monkeypatch.setattr(kernels.warm, "warm_up_first", lambda _, watch: [watch() for _ in range(2)])

    async def run(call):
        call()

    with caplog.at_level(logging.INFO):
        asyncio.run(kernels.load_kernels(run))
    assert [bool(COMPILED.search(record.message)) for record in caplog.records] == [False, True, False]


@pytest.mark.long
def test_thirty_answers_of_a_person_visibly_raise_the_accuracy(client):
    unsure = Unsure(client, Console(file=io.StringIO()))
    labels = {f"unlabelled-{k}": int(y) for k, y in enumerate(load_digits().y_test)}

    def shown():
        """Return the accuracy that the page's chart shows, and the accuracy on other digits."""
        return client.model(UNSURE)["metrics"]["window"]["accuracy"], unsure.accuracy()

    found, told = [shown()], []
    assert client.suspects(UNSURE, n=200)["suspects"] == []  # no streamed label looks wrong because it counts little
    for answer in range(1, 31):
        (question,) = client.query(UNSURE, n=1, annotator="ann")["queries"]
        client.learn(UNSURE, [{"id": question["id"], "y": labels[question["id"]], "lease": question["lease"]}])
        told.append(unsure.look())
        if answer % 10 == 0:
            found.append(shown())
    assert [n for n in told if n] == [10, 20, 30]
    charts, others = zip(*found, strict=True)
    assert list(charts) == sorted(charts)
    assert charts[-1] > charts[0] + 0.1
    assert others[0] < 0.8
    assert others[-1] > 0.9


@pytest.mark.long
def test_the_output_of_a_server_that_ended_by_itself_keeps_its_lines(tmp_path):
    told = ("--port", "0", "--data-dir", tmp_path)
    done = hinged("demo", "--no-stay", *told, code=1, env={"HINGED_CACHE_MB": "none"})
    first, second = done.stderr.splitlines()
    assert first == "hinged: the server ended by itself; its last output:"
    assert second.startswith("hinged: HINGED_CACHE_MB: ")


@pytest.mark.long
def test_the_demonstration_uses_the_settings_of_a_server(tmp_path):
    settings = {"HINGED_PORT": "0", "HINGED_DATA_DIR": str(tmp_path / "there"), "HINGED_CACHE_MB": "none"}
    done = hinged("demo", "--no-stay", code=1, env=settings)
    started, _, folder = done.stdout.splitlines()[0].partition(", data in ")
    assert started.startswith("starting a server on http://127.0.0.1:")
    assert not started.endswith(":8000")
    assert folder == settings["HINGED_DATA_DIR"]
