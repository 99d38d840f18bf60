"""Texts as rows: words and pairs of neighbouring words are counted in hashed columns with TF-IDF weights.

A word is a sequence of letters, digits and underscores of any script; case is ignored. In Chinese, Japanese and similar
scripts, which have no spaces, each character is a word. A word that occurs f times in a text contributes log2(1 + f)
times log2(1 + n / d), where d of the n texts in the warm-up contain the word. The row is scaled to length 1. The
logarithms are linear between powers of 2 (`bent`), so that every processor computes the same bits.

The warm-up determines the weights. After the warm-up the weights stay fixed, so the meaning of a learned row never
changes.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hinged.service.data.features.columns.base import ColumnKind, Said, Strings, Told
from hinged.service.data.features.records import TEXT_CHARS_MAX, Record
from hinged.solvers.core.states import StateReader
from hinged.solvers.estimators.scaling import BENT_MAX, bent

Array = np.ndarray[Any, Any]

BUCKETS = 2**18  # default number of hashed columns for texts
UNSEEN = 0.5  # number of texts that count as containing a word that did not occur in the warm-up

_ALONE = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana and ideographs
_WORD = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def counts_of(text: str, name: str, buckets: int) -> Counter[int]:
    """Return the counts of the columns of a text. A column is a hash of a word, or a pair of words, and the name of the
    feature.
    """
    words = words_of(text)
    terms = words + [f"{first} {second}" for first, second in itertools.pairwise(words)]
    salt = name.encode(errors="surrogatepass") + b"\0"
    return Counter(
        int.from_bytes(hashlib.blake2b(salt + term.encode(errors="surrogatepass"), digest_size=8).digest()) % buckets
        for term in terms
    )


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the columns of texts. An instance never changes.

    buckets: the number of columns of texts.
    known: (k,) int64, ascending: the columns that occurred in the warm-up.
    weights: (k,) float64: the weights of these columns. rest: the weight of any other column.
    """

    buckets: int
    known: Array
    weights: Array
    rest: float

    def row(self, counts: Counter[int]) -> list[tuple[int, float]]:
        """Return a text as columns and numbers, scaled to length 1. The result is empty if the text has no words."""
        if not counts:
            return []
        columns = np.array(sorted(counts), np.int64)
        found = bent(np.array([counts[column] for column in columns.tolist()], np.float64), 1.0) * self._of(columns)
        length = np.sqrt(np.bincount(np.zeros(columns.size, np.int64), np.square(found)))  # adds the squares one by one
        return list(zip(columns.tolist(), (found / length).tolist(), strict=True))

    def _of(self, columns: Array) -> Array:
        found = np.full(columns.size, self.rest)
        if self.known.size:
            places = np.minimum(np.searchsorted(self.known, columns), self.known.size - 1)
            there = self.known[places] == columns
            found[there] = self.weights[places[there]]
        return found

    def state(self) -> dict[str, Array]:
        return {"text_known": self.known, "text_weights": self.weights, "text_rest": np.array([self.rest])}


def even(buckets: int) -> Weights:
    """Return the weights to use before a warm-up has observed anything: all equal."""
    return Weights(buckets, np.zeros(0, np.int64), np.zeros(0), 1.0)


def weights_of(texts: Iterable[Counter[int]], buckets: int) -> Weights:
    """Return the weights that result from these texts. Each text is given as its result of `counts_of`."""
    within: Counter[int] = Counter()
    n = 0
    for counts in texts:
        within.update(counts.keys())
        n += 1
    if not n:
        return even(buckets)
    known = np.array(sorted(within), np.int64)
    shown = np.array([within[column] for column in known.tolist()], np.float64)
    return Weights(buckets, known, bent(n / shown, 1.0), float(bent(np.array(n / UNSEEN), 1.0)))


def read_weights(read: StateReader, buckets: int) -> Weights:
    """Return the weights of a `state`. Raise ValueError if the state is invalid."""
    known = read.take("text_known", np.int64, (None,), 0, buckets - 1)
    weights = read.take("text_weights", np.float64, (known.size,), 1.0, BENT_MAX)
    rest = float(read.take("text_rest", np.float64, (1,), 1.0, BENT_MAX)[0])
    if (np.diff(known) <= 0).any():
        raise ValueError("the columns of texts must ascend")
    return Weights(buckets, known, weights, rest)


class Texts(ColumnKind):
    """Names whose strings are texts. The columns of texts come after the columns of names. Two texts may share a
    column.
    """

    NAME, MEANING = "text", "words"
    EXAMPLE, SQUARE_MAX = "rehearsed again", 1.001  # a row of length 1, up to rounding
    CHARS_MAX: ClassVar[int] = TEXT_CHARS_MAX
    WIDTH: ClassVar[int] = BUCKETS

    def __init__(self, said: Said) -> None:
        super().__init__(said)
        self.weights = even(BUCKETS if said.buckets is None else said.buckets)

    @property
    def known(self) -> int:
        return self.weights.known.size

    def told(self, name: str, text: str, before: dict[str, float], *, notes: bool) -> Told:
        """Return no columns, because texts have only hashed columns."""
        return ()

    def hashed(self, name: str, text: str) -> tuple[Sequence[tuple[int, float]], bool]:
        weights = self.weights
        counts = counts_of(text, name, weights.buckets)
        known = not (weights.known.size and counts) or bool(np.isin(list(counts), weights.known).any())
        return weights.row(counts), known

    def observe(self, records: Sequence[Record], strings: Strings) -> None:
        if self.names:
            texts = ((name, text) for r in records for name, text in r.items() if name in self.names)
            counts = (counts_of(text, name, self.weights.buckets) for name, text in texts if type(text) is str)
            self.weights = weights_of(counts, self.weights.buckets)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {}, self.weights.state() if self.names else {}

    def load(self, facts: dict[str, Any], read: StateReader) -> None:
        if self.names:
            self.weights = read_weights(read, self.weights.buckets)

    def figures(self) -> dict[str, Any]:
        return {"texts": sorted(self.names), "words": self.known} if self.names else {}
