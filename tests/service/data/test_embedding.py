"""Models whose texts become vectors: from the configuration to a server that was killed."""

import asyncio
import json
import shutil
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hinged.local.model import LocalModel
from hinged.service.data.configuration import found_again, new_configuration, read_configuration, shown_configuration
from hinged.service.data.features.embeddings import wordllama as words
from hinged.service.data.features.embeddings.encoder import Embedding
from hinged.service.data.inputs import Records
from hinged.service.engine.history import ModelHistory
from hinged.service.engine.registry import Registry
from hinged.service.errors import Invalid, Unavailable
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore
from hinged.sklearn import HingedClassifier
from tests.helpers.http_client import AskedModel, Asking, refusal
from tests.helpers.server import RunningServer
from tests.helpers.states import digest_of, load_model
from tests.helpers.worker import SIZES
from tests.service.data.test_wordllama import FOLDER

EMBEDDED = {"type": "text", "embedding": "wordllama"}
OTHER = "0" * 64
BYTES = {"content-type": "application/octet-stream"}
PETS = ["the cat sleeps", "a puppy barks", "my kitten purrs", "dogs chase cats", "the hamster eats"]
MONEY = [
    "shares fell today",
    "the bank raised rates",
    "a loan with interest",
    "stocks and bonds",
    "investors sold gold",
]
STREAM = [
    {"x": f"{text} {k}", "y": y} for k in range(4) for y, texts in (("pets", PETS), ("money", MONEY)) for text in texts
]
PROBES = ["two rabbits", "an account at a credit union", "", "  \n "]


def configured(features=EMBEDDED, **more):
    return new_configuration(json.dumps({"features": features, **more}), Settings())


@pytest.fixture
def package(monkeypatch, tmp_path):
    """Yield a folder with the package's files, which is found instead of the package."""
    copy = tmp_path / "wordllama"
    for name in (words.WEIGHTS, words.TOKENS):
        (copy / name).parent.mkdir(parents=True)
        shutil.copyfile(FOLDER / name, copy / name)
    (copy / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    words._read.cache_clear()
    yield copy
    words._read.cache_clear()


@pytest.fixture
def absent(monkeypatch):
    """Make the package impossible to find."""
    monkeypatch.setitem(sys.modules, "wordllama", None)
    words._read.cache_clear()
    yield
    words._read.cache_clear()


def change(package):
    """Change one bit of the weights."""
    with (package / words.WEIGHTS).open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)[0]
        file.seek(-1, 2)
        file.write(bytes([last ^ 1]))
    words._read.cache_clear()


# -- configurations -----------------------------------------------------------------------------------------------


def test_the_server_finds_width_sum_and_kernel():
    configuration = configured()
    features = configuration.features
    assert (features.dim, features.embedding_sha256) == (words.WIDTH, words.wordllama().digest)
    assert (configuration.kernel.type, configuration.solver) == ("rbf", "auto")
    assert read_configuration(configuration.model_dump(mode="json")) == configuration
    shown = shown_configuration(configuration)
    assert shown["features"]["embedding_sha256"] == features.embedding_sha256
    assert new_configuration(json.dumps(shown), Settings()) == configuration
    assert configured({**EMBEDDED, "embedding_sha256": features.embedding_sha256}) == configuration
    assert configuration.same_as(found_again(configured(), configuration))


@pytest.mark.usefixtures("absent")
@pytest.mark.parametrize("features", [{"type": "text"}, {"type": "text", "embedding": None}])
def test_without_an_embedding_words_are_counted_and_nothing_is_read(features):
    configuration = configured(features)
    assert (configuration.features.dim, configuration.kernel.type) == (2**18, "linear")
    assert not isinstance(configuration.features.encoder(configuration), Embedding)
    assert "embedding" not in shown_configuration(configuration)["features"]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"embedding": "other"}, "features.embedding: allowed are wordllama and the folders in HINGED_EMBEDDINGS"),
        ({"dim": 255}, "features.dim must be at least 256, got 255"),
        ({"embedding": "wordllama", "dim": 512}, "features.dim must be 256 with this embedding, got 512"),
        ({"embedding": "wordllama", "embedding_sha256": "x"}, "features.embedding_sha256"),
        ({"embedding": "wordllama", "embedding_sha256": OTHER}, f"got {OTHER}; install the version"),
        ({"embedding_sha256": OTHER}, "features.embedding_sha256 needs features.embedding, got null"),
    ],
)
def test_a_wrong_embedding_is_refused(features, message):
    with pytest.raises(Invalid) as refused:
        configured({"type": "text", **features})
    assert message in str(refused.value)


@pytest.mark.usefixtures("absent")
def test_if_the_package_is_missing_the_error_names_the_extra():
    with pytest.raises(Invalid, match=r'package wordllama, which is not installed: pip install "hinged\[text\]"'):
        configured()


def test_damaged_files_are_refused(package):
    (package / words.TOKENS).write_text("{}")
    words._read.cache_clear()
    with pytest.raises(Invalid, match="the files of the package wordllama cannot be read"):
        configured()


# -- the encoder --------------------------------------------------------------------------------------------------


def test_the_warm_up_only_determines_gamma():
    rbf, linear = configured(), configured(kernel={"type": "linear"})
    assert (rbf.warmup, linear.warmup) == (1000, 0)
    assert configured(kernel={"type": "rbf", "gamma": 1.0}).warmup == 0
    encoder = rbf.features.encoder(rbf)
    encoder.observe([{"text": text} for text in PETS])
    indptr, columns, values = encoder.freeze()
    dense = np.zeros((len(PETS), words.WIDTH))
    dense[np.repeat(np.arange(len(PETS)), np.diff(indptr)), columns] = values
    assert (dense == words.wordllama().matrix(PETS)).all()
    assert encoder.spread.gamma("rbf") == pytest.approx(1 / dense.var(axis=0).sum())
    again = rbf.features.encoder(rbf)
    again.load(*encoder.state())
    assert (again.state()[0], again.spread, again.left) == (encoder.state()[0], encoder.spread, 995)
    with pytest.raises(ValueError, match="has observed 5 texts of a warm-up of 1000"):
        again.load({**encoder.state()[0], "warming": False}, encoder.state()[1])


def test_a_long_batch_is_predicted_on_a_thread():
    features = configured().features
    counted = configured({"type": "text"}).features
    many, long = Records(({"text": "a"},) * 100), Records(({"text": "a" * 5000},))
    assert features.sizes(many)[0] == 256 * 100 > counted.sizes(many)[0]
    assert features.sizes(long)[1] == 15_060 > counted.sizes(long)[1] == 5_020


def test_the_classifier_takes_an_embedding():
    texts, labels = [e["x"] for e in STREAM], [e["y"] for e in STREAM]
    model = HingedClassifier(configuration={"features": EMBEDDED}).fit(texts, labels)
    assert model.predict(PROBES[:2]).tolist() == ["pets", "money"]


# -- servers and logs ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_killed_server_and_a_replay_have_the_same_bits(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        model, counted = AskedModel(ask, "m"), AskedModel(ask, "counted")
        assert ask("PUT", model.path, json={"features": EMBEDDED}).status_code == 201
        assert ask("PUT", counted.path, json={"features": {"type": "text"}}).status_code == 201
        model.learn(*STREAM[:25])
        expected = model.predict(*PROBES)
        assert [result["prediction"] for result in expected[:2]] == ["pets", "money"]
        assert [result.get("outside") for result in expected] == [None, None, ["text"], ["text"]]
        server.kill()
        server.start()
        assert model.predict(*PROBES) == expected
        model.learn(*STREAM[25:])
        error = refusal(
            ask("PUT", model.path, json={"features": {**EMBEDDED, "embedding_sha256": OTHER}}), 422, "invalid"
        )
        assert OTHER in error["message"]
        assert ask("PUT", counted.path, json={"features": EMBEDDED}).status_code == 409
        exported = ask("GET", f"{model.path}/export").content
        assert ask("POST", "/models/copy/import", content=exported, headers=BYTES).status_code == 201
        assert ask("POST", "/models/copy/predict", json={"examples": [{"x": x} for x in PROBES]}).status_code == 200
        server.kill()
    with closing(SQLiteStore(tmp_path / "data")) as store:
        first, second = load_model(store, "m", **SIZES), load_model(store, "m", **SIZES)
        assert first.learned == len(STREAM)
        learned = [event.inputs for event in ModelHistory(store, "m", **SIZES).learned(first, first.position + 1)]
        assert [x for inputs in learned for x in inputs.records] == [{"text": e["x"]} for e in STREAM]
        assert digest_of(first) == digest_of(second)
        live = LocalModel.create({"features": EMBEDDED})
        live.learn(Records(tuple({"text": e["x"]} for e in STREAM)), [e["y"] for e in STREAM])
        probes = Records(tuple({"text": text} for text in PROBES))
        assert (first.published().decide(probes).columns == live.decide(probes).columns).all()


def test_a_model_never_loads_with_other_weights(package, tmp_path, monkeypatch):
    async def created(registry):
        await registry.create("m", configured(solver="perceptron", kernel={"type": "linear"}))

    async def stopped(registry):
        with pytest.raises(Unavailable) as refused:
            registry.get("m")
        return str(refused.value)

    def run(scenario):
        async def main():
            with closing(SQLiteStore(Path(tmp_path / "data"))) as store:
                registry = Registry(store, Settings())
                await registry.start()
                try:
                    return await scenario(registry)
                finally:
                    await registry.stop()

        return asyncio.run(main())

    run(created)
    digest = words.wordllama().digest
    change(package)
    assert f"the installed wordllama has {words.wordllama().digest}, got {digest}; install the version" in run(stopped)
    with closing(SQLiteStore(tmp_path / "data")) as store:
        assert store.snapshots("m")
        store.trim("m", store.end("m"))  # the snapshot alone has the state, and is not damaged
    assert f"got {digest}; install the version" in run(stopped)
    monkeypatch.setitem(sys.modules, "wordllama", None)
    words._read.cache_clear()
    assert 'pip install "hinged[text]"' in run(stopped)
