"""Vectors of texts. The reference is the package's own code, and the package tokenizers that it uses."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from hinged.service.data.features.embeddings.wordllama import PART, SPACE, TOKENS, WEIGHTS, WIDTH, wordllama
from tests.helpers.server import ROOT

FOLDER = Path(find_spec("wordllama").submodule_search_locations[0])
TEXTS = [
    "free money now",
    "Größe: 12 £",
    "機械学習 ml2 かな",
    "a\tb\n\nc",
    "🙂🙂",
    "x" * (PART - 1),
    "http://a.b/c?d=e",
]
PROGRAM = """
import json, sys
from hinged.service.data.features.embeddings.wordllama import wordllama

found = wordllama().matrix(json.load(sys.stdin))
imported = {name.partition(".")[0] for name in sys.modules}
print(json.dumps([found.tobytes().hex(), sorted(imported & {"wordllama", "tokenizers", "safetensors", "requests"})]))
"""


LIBRARY = """
import json, sys
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from wordllama.inference import WordLlamaInference

tokens, weights, texts = json.load(sys.stdin)
library = WordLlamaInference(load_file(weights)["embedding.weight"], Tokenizer.from_file(tokens))
print(json.dumps([library.embed(text, norm=True)[0].tolist() for text in texts]))
"""


def answer_of(program, given):
    """Run a Python program that reads and prints JSON; return the answer."""
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, cwd=ROOT, input=json.dumps(given), capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


@cache
def reference():
    """Return the tokens and the embeddings as other packages read them."""
    return Tokenizer.from_file(str(FOLDER / TOKENS)), load_file(FOLDER / WEIGHTS)["embedding.weight"]


def normal(text):
    """Return a text with one space between words."""
    return " ".join(text.replace(SPACE, " ").split())


pieces = st.sampled_from(
    ["a", "aaa", "e", "the", "ing", "é", "中", "🙂", "\x00", "=", "==", "0", "100", "к", "ж", "\u2028", SPACE]
)
texts = st.lists(st.one_of(pieces, st.characters(exclude_categories=["Cs"]), st.just(" ")), max_size=40).map("".join)


@settings(deadline=None, max_examples=150)
@given(texts)
@example("information retrieval, preprocessing and internationalisation")
@example(" ".join(TEXTS))
def test_tokens_equal_those_of_the_package_tokenizers(text):
    text = text.replace("<", "")  # tokenizers treats <s> in a text as a mark, and not as three characters
    expected = reference()[0].encode(normal(text), add_special_tokens=False).ids
    assert wordllama().tokens([text]) == [expected]


@pytest.mark.long
def test_vectors_equal_those_of_the_package_wordllama():
    # Another process, because the package changes the settings of Python's logs.
    files = [str(FOLDER / TOKENS), str(FOLDER / WEIGHTS)]
    expected = answer_of(LIBRARY, [*files, [normal(text) for text in TEXTS]])
    np.testing.assert_allclose(wordllama().matrix(TEXTS), expected, atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=40), max_size=5))
def test_every_vector_has_length_1_or_0_whatever_stands_beside_it(given):
    found = wordllama().matrix(given)
    assert found.shape == (len(given), WIDTH)
    for text, row in zip(given, found, strict=True):
        assert np.linalg.norm(row) == (pytest.approx(1) if text.replace(SPACE, " ").split() else 0)
        assert (wordllama().matrix([text])[0] == row).all()


def test_a_sum_does_not_depend_on_the_order():
    words = [word for text in TEXTS for word in normal(text).split()]
    there, back = wordllama().matrix([" ".join(words), " ".join(reversed(words))])
    assert there.tobytes() == back.tobytes()
    embeddings = reference()[1].astype(np.float64)
    assert (embeddings * 2**24 == np.rint(embeddings * 2**24)).all()
    assert np.abs(embeddings).max() <= 16


def test_a_lone_surrogate_and_a_very_long_word_have_tokens():
    assert wordllama().tokens(["\ud800"]) == [[29871, 3 + 0xED, 3 + 0xA0, 3 + 0x80]]  # 29871 is the beginning of a word
    assert len(wordllama().tokens(["ab" * 25_000])[0]) < 30_000


def test_threads_and_another_process_find_the_same_bits():
    texts = TEXTS * 3
    expected = wordllama().matrix(texts).tobytes()
    with ThreadPoolExecutor(4) as executor:
        assert {m.tobytes() for m in executor.map(wordllama().matrix, [texts] * 8)} == {expected}
    # The other process also shows that no module of the package, and no other package, is imported.
    assert answer_of(PROGRAM, texts) == [expected.hex(), []]
