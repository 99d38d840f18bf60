"""Vectors of texts from a vector for each token. The order of the tokens does not count."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SUMMED = 2**12  # tokens that are summed at once, which need 8 KiB for each column
HEADER_MAX = 2**20  # maximum bytes of the header of a file of tensors
DTYPES: Mapping[str, str] = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "<i1", "I32": "<i4", "I64": "<i8"}
"""Types of numbers in files of tensors, and their names in numpy."""


class StaticWords(ABC):
    """A table of vectors. A text's vector is the sum of its tokens' vectors, scaled to length 1, or 0 without tokens.

    The bits of a vector do not depend on processor or process: numpy adds two or more columns row by row.

    digest: the SHA-256 of the files, in hexadecimal.
    """

    def __init__(self, embeddings: Array, digest: str) -> None:
        """embeddings: (tokens, width), with two or more columns."""
        self.digest = digest
        self._embeddings = embeddings

    @property
    def width(self) -> int:
        """Return the number of columns of a vector."""
        return int(self._embeddings.shape[1])

    @abstractmethod
    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the tokens of each text."""

    def matrix(self, texts: Sequence[str]) -> Array:
        """Return the vectors of texts (m, width), float64."""
        sums = np.array([self._sum(tokens) for tokens in self.tokens(texts)]).reshape(len(texts), self.width)
        lengths = np.sqrt(np.square(sums).cumsum(axis=1)[:, -1:])
        return sums / np.where(lengths > 0.0, lengths, 1.0)

    def vectors(self, tokens: Sequence[int] | Array) -> Array:
        """Return the vectors of tokens (n, width)."""
        return self._embeddings[tokens]

    def _sum(self, tokens: Sequence[int]) -> Array:
        found = np.zeros(self.width)
        for begin in range(0, len(tokens), SUMMED):
            rows = self.vectors(tokens[begin : begin + SUMMED])
            found = (np.concatenate((found[None], rows)) if begin else rows).sum(axis=0, dtype=np.float64)
        return found


def digest_of(*paths: Path) -> str:
    """Return the SHA-256 of the files, one after the other, in hexadecimal."""
    digest = sha256()
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(2**20):
                digest.update(piece)
    return digest.hexdigest()


def tensors_of(path: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file by name. The file stays on disk, and processes share its pages in memory.

    Raise ValueError if an array is not in the file, or DTYPES lacks its type.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 0 < size <= HEADER_MAX:
            raise ValueError(f"{path.name} has a header of {size} bytes, at most {HEADER_MAX} are allowed")
        facts = json.loads(file.read(size))
    found: dict[str, Array] = {}
    for name, fact in facts.items():
        if name == "__metadata__":
            continue
        if fact["dtype"] not in DTYPES:
            raise ValueError(f"{name} of {path.name} has the type {fact['dtype']}, allowed are {', '.join(DTYPES)}")
        found[name] = np.memmap(
            path, np.dtype(DTYPES[fact["dtype"]]), "r", 8 + size + fact["data_offsets"][0], tuple(fact["shape"])
        )
    return found
