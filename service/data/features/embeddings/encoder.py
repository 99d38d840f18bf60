"""The encoder of texts with an embedding: each text becomes a vector of length 1, and the warm-up determines gamma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hinged.service.data.features.embeddings.static import StaticWords
from hinged.service.data.features.observing import Encoder
from hinged.service.data.features.reader import Outside, Reader
from hinged.service.data.features.records import TEXT, Record, pack_records, unpack_records
from hinged.service.data.features.spread import Spread, spread_of
from hinged.service.data.inputs import Records
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.rows import Rows, rows_from_dense
from hinged.solvers.core.states import StateReader
from hinged.solvers.estimators.scaling import CSR

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class EmbeddingReader(Reader[Records]):
    """A reader of texts. A text without words is outside of everything learned."""

    words: StaticWords

    def matrix(self, inputs: Records) -> Array:
        return self.words.matrix([str(record.get(TEXT, "")) for record in inputs.records])

    def rows(self, inputs: Records, kernel: Kernel, dim: int, dtype: type) -> Rows:
        return rows_from_dense(self.matrix(inputs), kernel, dim, dtype)

    def seen(self, inputs: Records, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        found = self.matrix(inputs)
        rows = rows_from_dense(found, kernel, dim, dtype)
        return rows, {r: [TEXT] for r in np.flatnonzero(~found.any(axis=1)).tolist()}


class Embedding(Encoder[Records, Record]):
    """The vectors of texts. Columns mean the same from the first text on; the warm-up only determines gamma."""

    NAME, ITEMS, FIRST = "embedding", "texts", 1

    def __init__(self, words: StaticWords, warmup: int) -> None:
        super().__init__(warmup)
        self._reader = EmbeddingReader(words)

    def __len__(self) -> int:
        return self._reader.words.width

    # -- the warm-up ----------------------------------------------------------------------------------------------

    def items(self, inputs: Records) -> list[Record]:
        return list(inputs.records)

    def freeze(self) -> CSR:
        found = self._reader.matrix(Records(tuple(self.observed)))
        rows, columns = np.nonzero(found)
        counts = np.bincount(rows, minlength=len(found))
        csr = np.concatenate(([0], np.cumsum(counts))), columns, found[rows, columns]
        self.spread = spread_of(csr) if len(found) else Spread(0.0, 0.0, 0.0)
        self._end_if_whole()
        return csr

    # -- rows -----------------------------------------------------------------------------------------------------

    def rows(self, inputs: Records, kernel: Kernel, dim: int, dtype: type) -> Rows:
        return self._reader.rows(inputs, kernel, dim, dtype)

    def reader(self) -> EmbeddingReader:
        return self._reader

    def examples(self, most: int) -> list[Records]:
        return [Records((*self.observed[:most], {TEXT: "rehearsed again"}))]

    # -- for people, and as a state -------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        return {"warmup_left": self.left}

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        spread = np.array([self.spread.square, self.spread.absolute, self.spread.inner])
        return {"warming": self.warming, "observed": pack_records(self.observed)}, {"spread": spread}

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        observed, warming = unpack_records(facts["observed"]), facts["warming"]
        if type(warming) is not bool or not len(observed) < (self.warmup if warming else 1):
            raise ValueError(f"the state has observed {len(observed)} texts of a warm-up of {self.warmup}")
        # More than the spread of rows of length 1: |x - z|_1 is at most twice the root of the width.
        spread = StateReader(arrays).take("spread", np.float64, (3,), 0.0, 4.0 * len(self))
        self.observed, self.warming, self.spread = observed, warming, Spread(*spread.tolist())
