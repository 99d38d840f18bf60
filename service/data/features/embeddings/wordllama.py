"""Vectors of texts from the static word embeddings that the package wordllama contains.

A text is divided at white space into words. Byte-pair encoding divides each word into tokens: of all neighbouring parts
that form a token together, the pair whose token has the lowest number is joined first, until no pair forms a token. A
character without a token becomes the tokens of its bytes in UTF-8.

The embeddings are multiples of 2^-24 within 16, so their sums are exact in float64, in any order. This module finds the
tokens itself. The package tokenizers holds Python's lock for 0.1 s while it reads its file, and another version of the
package could find other tokens.

The package's files are read, but none of its modules is imported. Nothing is downloaded.
"""

from __future__ import annotations

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
from hinged.service.data.features.embeddings.static import StaticWords, digest_of, tensors_of

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
PARSED = 2_000  # tokens of the file that are parsed in one step, which takes 2 ms
NONE = 2**31  # more than any token's number

_loading = threading.Lock()


class WordLlama(StaticWords):
    """The embeddings of the package and their tokens."""

    def __init__(self, embeddings: Array, numbers: Mapping[str, int], digest: str) -> None:
        """embeddings: (tokens, WIDTH). numbers: the number of each token that is not a single byte."""
        super().__init__(embeddings, digest)
        self._numbers = numbers
        self._of_word = lru_cache(WORDS_KEPT)(self._joined)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the tokens of each text."""
        return [self._tokens(text) for text in texts]

    def _tokens(self, text: str) -> list[int]:
        found: list[int] = []
        for word in text.replace(SPACE, " ").split():
            whole = SPACE + word
            for begin in range(0, len(whole), PART):
                found += self._of_word(whole[begin : begin + PART])
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


def wordllama() -> WordLlama:
    """Return the embeddings of the installed package, which are read once. Raise ValueError if the package is missing,
    or if its files are not as expected.
    """
    with _loading:
        return _read()


@cache
def _read() -> WordLlama:
    try:
        require("text", f'"embedding": "{NAME}"', NAME)
    except Lacking as error:
        raise ValueError(str(error)) from None
    try:
        spec = find_spec(NAME)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError("it is not a package")  # noqa: TRY301
        folder = Path(spec.submodule_search_locations[0])
        digest = digest_of(folder / WEIGHTS, folder / TOKENS)
        numbers = _numbers_of((folder / TOKENS).read_text(encoding="utf-8"))
        embeddings = tensors_of(folder / WEIGHTS)["embedding.weight"]
        if embeddings.dtype != np.float16 or embeddings.ndim != 2 or embeddings.shape[1] != WIDTH:
            raise ValueError(f"expected float16 of width {WIDTH}, got {embeddings.dtype} of shape {embeddings.shape}")  # noqa: TRY301
        if max(numbers.values()) >= len(embeddings):
            raise ValueError(f"there are {len(embeddings)} embeddings")  # noqa: TRY301
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the files of the package {NAME} cannot be read: {error!r:.200}") from None
    return WordLlama(embeddings, numbers, digest)


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
