"""Vectors of texts from the static word embeddings that the package wordllama contains.

A text is divided at white space into words. Byte-pair encoding divides each word into tokens: of all neighbouring parts
that form a token together, the pair whose token has the lowest number is joined first, until no pair forms a token. A
character without a token becomes the tokens of its bytes in UTF-8. A text's vector is the sum of its tokens' vectors,
scaled to length 1. A text without words has the vector 0.

The bits of a vector do not depend on processor, process or library. The embeddings are multiples of 2^-24 within 16, so
their sums are exact in float64, in any order. This module finds the tokens itself. The package tokenizers holds
Python's lock for 0.1 s while it reads its file, and another version of the package could find other tokens.

The package's files are read, but none of its modules is imported. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hinged.extras import Lacking, require

Array = np.ndarray[Any, Any]

NAME: Literal["wordllama"] = "wordllama"
WIDTH = 256
WEIGHTS, TOKENS = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"
BYTES_FROM, MERGED_FROM = 3, 259  # the first of the 256 tokens of bytes, and the first of all other tokens

SPACE = "\u2581"  # begins each word; it counts as white space in a text
PART = 100
"""Maximum number of characters that are joined to tokens at once. The time per character grows with it. In a longer
word, no token extends over the end of a part.
"""
WORDS_KEPT = 2**15  # words whose tokens are kept in memory, about 200 bytes each
SUMMED = 2**12  # tokens that are summed at once, which need 10 MiB
PARSED = 2_000  # tokens of the file that are parsed in one step, which takes 2 ms
NONE = 2**31  # more than any token's number

_loading = threading.Lock()


class StaticWords:
    """The embeddings and their tokens.

    digest: the SHA-256 of the file of embeddings, followed by the file of tokens, in hexadecimal.
    """

    def __init__(self, embeddings: Array, numbers: Mapping[str, int], digest: str) -> None:
        """embeddings: (tokens, WIDTH). numbers: the number of each token that is not a single byte."""
        self.digest = digest
        self._embeddings, self._numbers = embeddings, numbers
        self._of_word = lru_cache(WORDS_KEPT)(self._joined)

    def matrix(self, texts: Sequence[str]) -> Array:
        """Return the vectors of texts (m, WIDTH), float64."""
        sums = np.array([self._sum(self.tokens(text)) for text in texts]).reshape(len(texts), WIDTH)
        # A cumulative sum adds one number after the other, so its bits are the same on every processor.
        lengths = np.sqrt(np.square(sums).cumsum(axis=1)[:, -1:])
        return sums / np.where(lengths > 0.0, lengths, 1.0)

    def tokens(self, text: str) -> list[int]:
        """Return the numbers of the tokens of a text."""
        found: list[int] = []
        for word in text.replace(SPACE, " ").split():
            whole = SPACE + word
            for begin in range(0, len(whole), PART):
                found += self._of_word(whole[begin : begin + PART])
        return found

    def _sum(self, tokens: list[int]) -> Array:
        found = np.zeros(WIDTH)
        for begin in range(0, len(tokens), SUMMED):
            found += self._embeddings[tokens[begin : begin + SUMMED]].sum(axis=0, dtype=np.float64)
        return found

    def _joined(self, word: str) -> tuple[int, ...]:
        parts, numbers = list(word), self._numbers
        pairs = [numbers.get(first + second, NONE) for first, second in pairwise(parts)]
        while pairs and (lowest := min(pairs)) != NONE:
            k = pairs.index(lowest)
            parts[k : k + 2] = [parts[k] + parts[k + 1]]
            del pairs[k]
            for p in range(max(k - 1, 0), min(k + 1, len(pairs))):
                pairs[p] = numbers.get(parts[p] + parts[p + 1], NONE)
        return tuple(token for part in parts for token in self._of_part(part))

    def _of_part(self, part: str) -> Iterable[int]:
        number = self._numbers.get(part)
        # Only a single character can lack a token.
        return (BYTES_FROM + byte for byte in part.encode(errors="surrogatepass")) if number is None else (number,)


def wordllama() -> StaticWords:
    """Return the embeddings of the installed package, which are read once. Raise ValueError if the package is missing,
    or if its files are not as expected.
    """
    with _loading:
        return _read()


@cache
def _read() -> StaticWords:
    try:
        require("text", f'"embedding": "{NAME}"', NAME)
    except Lacking as error:
        raise ValueError(str(error)) from None
    try:
        spec = find_spec(NAME)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError("it is not a package")  # noqa: TRY301
        folder = Path(spec.submodule_search_locations[0])
        digest = hashlib.sha256()
        for name in (WEIGHTS, TOKENS):
            with (folder / name).open("rb") as file:
                while piece := file.read(2**20):
                    digest.update(piece)
        numbers = _numbers_of((folder / TOKENS).read_text(encoding="utf-8"))
        embeddings = _embeddings_of(folder / WEIGHTS)
        if max(numbers.values()) >= len(embeddings):
            raise ValueError(f"there are {len(embeddings)} embeddings")  # noqa: TRY301
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the files of the package {NAME} cannot be read: {error!r:.200}") from None
    return StaticWords(embeddings, numbers, digest.hexdigest())


def _numbers_of(text: str) -> dict[str, int]:
    """Return the number of each token. The file has one token per line; it is parsed in steps, so that other threads
    can run.
    """
    begin = text.index("{", text.index('"vocab"')) + 1
    lines = text[begin : text.index("\n    }", begin)].split(",\n")
    found: dict[str, int] = {}
    for first in range(0, len(lines), PARSED):
        found |= json.loads("{" + ",".join(lines[first : first + PARSED]) + "}")
    return {token: number for token, number in found.items() if number >= MERGED_FROM}


def _embeddings_of(path: Path) -> Array:
    """Return the array of a safetensors file. The file stays on disk, and processes share its pages in memory."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        facts = json.loads(file.read(min(size, 2**16)))["embedding.weight"]
    if facts["dtype"] != "F16" or len(facts["shape"]) != 2 or facts["shape"][1] != WIDTH:
        raise ValueError(f"expected F16 of width {WIDTH}, got {facts['dtype']} of shape {facts['shape']}")
    return np.memmap(path, np.dtype("<f2"), "r", 8 + size + facts["data_offsets"][0], tuple(facts["shape"]))
