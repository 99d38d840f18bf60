"""Embeddings in folders. The reference is the package model2vec, which writes and reads such folders."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from model2vec import StaticModel
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from hinged.service.data.configuration import new_configuration
from hinged.service.data.features.embeddings.folders import TOKENS, VARIABLE, WEIGHTS, _read, folder_names
from hinged.service.data.features.embeddings.named import embedding_named
from hinged.service.errors import Invalid
from hinged.service.settings import Settings
from hinged.sklearn import HingedClassifier
from tests.helpers.http_client import AskedModel, Asking
from tests.helpers.server import ROOT, RunningServer, eventually
from tests.service.data.test_embedding import MONEY, PETS, PROBES, STREAM

UNKNOWN = "[UNK]"
LONG = "cat " * 10_000
TEXTS = [
    *PETS,
    *MONEY,
    "Größe: 12 £",
    "機械学習 ml2",
    "a\tb\n\nc",
    "🙂🙂",
    "x" * 500,
    "",
    " ",
    "zyzzyva",
]
KINDS = ["words", "pieces", "bytes", "unigrams"]
WIDTH = 24


def tokenizer_of(kind):
    """Return a tokenizer of a kind that published models have."""
    special = [UNKNOWN, "[PAD]"]
    if kind == "words":
        tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
        tokenizer.pre_tokenizer, trainer = (
            pre_tokenizers.Whitespace(),
            trainers.WordLevelTrainer(special_tokens=special),
        )
    elif kind == "pieces":
        tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=special)
    elif kind == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=80, special_tokens=special, unk_token=UNKNOWN)
    tokenizer.train_from_iterator(PETS + MONEY, trainer)
    tokenizer.enable_padding()
    tokenizer.enable_truncation(16)
    return tokenizer


def written(folder, kind="pieces", dtype=np.float32, quantized=False, seed=0):
    """Write an embedding as model2vec saves it; return its folder."""
    tokenizer, random = tokenizer_of(kind), np.random.default_rng(seed)
    tokens = tokenizer.get_vocab_size()
    more = {}
    if quantized:
        more = {
            "weights": random.random(tokens).astype(np.float32),
            "token_mapping": random.integers(0, 40, tokens),
        }
    vectors = (20 * random.normal(size=(40 if quantized else tokens, WIDTH))).astype(dtype)
    StaticModel(vectors, tokenizer, normalize=True, **more).save_pretrained(folder)
    return folder


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """The folder of HINGED_EMBEDDINGS."""
    folder = tmp_path / "embeddings"
    folder.mkdir()
    monkeypatch.setenv(VARIABLE, str(folder))
    yield folder
    _read.cache_clear()


def configured(name, **more):
    features = {"type": "text", "embedding": name, **more}
    return new_configuration(json.dumps({"features": features}), Settings())


characters = st.characters(exclude_categories=["Cs"])
pieces = st.sampled_from([*TEXTS[:10], " the ", "cats", "é", "中"])
texts = st.lists(st.one_of(pieces, characters), max_size=12).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.float64])
def test_vectors_equal_those_of_the_package_model2vec(tmp_path_factory, kind, dtype, quantized):
    shelf = tmp_path_factory.mktemp("shelf")
    written(shelf / "mine", kind, dtype, quantized)
    reference = StaticModel.from_pretrained(shelf / "mine", max_length=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(shelf))
        words = embedding_named("mine")

    @settings(max_examples=8, deadline=None)
    @given(st.lists(texts, min_size=1, max_size=4))
    @example(TEXTS)
    def check(given):
        expected = reference.encode(given).astype(np.float64)
        lengths = np.linalg.norm(expected, axis=1)
        found = words.matrix(given)
        expected /= np.where(lengths, lengths, 1)[:, None]
        np.testing.assert_allclose(found, expected, atol=5e-3 if dtype == np.float16 else 1e-5)
        assert all((words.matrix([text])[0] == row).all() for text, row in zip(given, found, strict=True))

    check()


@pytest.mark.parametrize("quantized", [False, True])
def test_a_vector_is_a_plain_sum_to_the_bit(shelf, quantized):
    written(shelf / "mine", quantized=quantized)
    words, tensors = embedding_named("mine"), StaticModel.from_pretrained(shelf / "mine")
    for text, row in zip([*TEXTS, LONG], words.matrix([*TEXTS, LONG]), strict=True):
        total = [0.0] * WIDTH
        for token in words.tokens([text])[0]:
            place = tensors.token_mapping[token] if quantized else token
            weight = float(tensors.weights[token]) if quantized else 1.0
            total = [t + float(v) * weight for t, v in zip(total, tensors.embedding[place], strict=True)]
        square = 0.0
        for t in total:
            square += t * t
        assert row.tolist() == [t / math.sqrt(square) if square else 0.0 for t in total], text


def test_a_text_with_lone_surrogates_has_a_vector(shelf):
    written(shelf / "mine")
    found = embedding_named("mine").matrix(["the cat \ud800", "the cat ?"])
    assert (found[0] == found[1]).all()


def test_another_process_finds_the_same_bits(shelf):
    written(shelf / "mine")
    program = (
        "import json, sys; from hinged.service.data.features.embeddings.named import embedding_named;"
        "print(embedding_named('mine').matrix(json.load(sys.stdin)).tobytes().hex())"
    )
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, cwd=ROOT, input=json.dumps(TEXTS), capture_output=True, text=True, check=True)
    assert found.stdout.strip() == embedding_named("mine").matrix(TEXTS).tobytes().hex()


# -- configurations ---------------------------------------------------------------------------------------------------


def test_the_server_finds_width_and_sum(shelf):
    written(shelf / "mine")
    features = configured("mine").features
    assert (features.dim, features.embedding_sha256) == (WIDTH, embedding_named("mine").digest)
    with pytest.raises(Invalid, match=f"features.dim must be {WIDTH} with this embedding, got 256"):
        configured("mine", dim=256)


@pytest.mark.parametrize("name", ["", ".", "..", "../embeddings/mine", "mine/", "/etc", "a" * 101, "mine\n", "mine\0"])
def test_a_name_is_no_path(shelf, name):
    written(shelf / "mine")
    with pytest.raises(Invalid, match=r"features\.embedding: "):
        configured(name)


def test_the_error_of_an_unknown_name_lists_what_there_is(shelf, monkeypatch):
    written(shelf / "mine")
    (shelf / "file").touch()
    (shelf / "folder").mkdir()
    assert folder_names() == ["mine"]
    with pytest.raises(Invalid, match=r"and the folders in HINGED_EMBEDDINGS \(with mine\), got other"):
        configured("other")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(Invalid, match=r"HINGED_EMBEDDINGS \(without an embedding\), got mine"):
        configured("mine")
    monkeypatch.setenv(VARIABLE, str(shelf / "gone"))
    with pytest.raises(Invalid, match=r"HINGED_EMBEDDINGS: .* cannot be read: No such file"):
        configured("mine")


def other_types(folder):
    save_file({"embeddings": np.zeros((3, 2), np.uint16)}, folder / WEIGHTS)


def no_table(folder):
    save_file({"vectors": np.zeros((3, 2), np.float32)}, folder / WEIGHTS)


def too_few(folder):
    save_file({"embeddings": np.zeros((3, 2), np.float32)}, folder / WEIGHTS)


def wrong_places(folder):
    more = {"mapping": np.full(tokenizer_of("pieces").get_vocab_size(), 3)}
    save_file({"embeddings": np.zeros((3, 2), np.float32), **more}, folder / WEIGHTS)


DAMAGES = {
    "no table": (no_table, "embeddings must be a table of 2 to 4096 columns, got nothing"),
    "too few vectors": (too_few, "has vectors for 3"),
    "wrong places": (wrong_places, "has vectors for"),
    "other types": (other_types, "type U16, allowed are"),
    "cut off": (lambda folder: os.truncate(folder / WEIGHTS, 300), "greater than file size"),
    "empty": (lambda folder: (folder / WEIGHTS).write_bytes(b""), "header of 0 bytes"),
    "no header": (lambda folder: (folder / WEIGHTS).write_bytes(b"\xff" * 100), "at most 1048576 are allowed"),
    "no tokens": (lambda folder: (folder / TOKENS).unlink(), "No such file"),
    "damaged tokens": (lambda folder: (folder / TOKENS).write_text("{}"), "Model missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(shelf, damage):
    harm, message = DAMAGES[damage]
    harm(written(shelf / "mine"))
    with pytest.raises(Invalid, match=rf"features\.embedding: the embedding in .*mine cannot be read: .*{message}"):
        configured("mine")


# -- from the classifier to a server ----------------------------------------------------------------------------------


def test_the_classifier_takes_an_embedding(shelf):
    written(shelf / "mine")
    texts, labels = [e["x"] for e in STREAM], [e["y"] for e in STREAM]
    model = HingedClassifier(configuration={"features": {"type": "text", "embedding": "mine"}}).fit(texts, labels)
    assert model.score(texts, labels) > 0.9


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_server_has_the_same_answers_and_stops_at_other_files(tmp_path, processes):
    shelf = tmp_path / "shelf"
    written(shelf / "mine")
    options = {} if processes == 1 else {"processes": processes, "followers": 1}
    with RunningServer(tmp_path / "data", embeddings=shelf, **options) as server, Asking(server.url) as ask:
        model = AskedModel(ask, "m")
        answer = ask("PUT", model.path, json={"features": {"type": "text", "embedding": "mine"}})
        assert answer.status_code == 201, answer.text
        model.learn(*STREAM)
        expected = model.predict(*PROBES)
        assert [result.get("outside") for result in expected][2:] == [["text"], ["text"]]
        server.kill()
        server.start()
        assert model.predict(*PROBES) == expected
        server.terminate()
        written(shelf / "mine", seed=1)
        server.start()
        eventually(lambda: "install the version of mine that the model" in ask("GET", model.path).text)
        assert ask("GET", model.path).json()["error"]["details"]["state"] == "stopped"


@pytest.mark.parametrize("name", ["two words", ".hidden", "größe", "wordllama", "a" * 101])
def test_a_server_does_not_start_with_a_name_that_no_client_can_give(tmp_path, name):
    written(tmp_path / "shelf" / name)
    code, said = RunningServer(tmp_path / "data", embeddings=tmp_path / "shelf").run()
    assert code == 1
    assert f"except wordllama, got {name}" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("processes", [1, 2])
def test_a_server_does_not_start_with_a_damaged_embedding(tmp_path, processes):
    shelf = tmp_path / "shelf"
    no_table(written(shelf / "mine"))
    code, said = RunningServer(tmp_path / "data", embeddings=shelf, processes=processes).run()
    assert code == 1
    assert f"the embedding in {shelf / 'mine'} cannot be read" in said
    assert "Traceback" not in said
