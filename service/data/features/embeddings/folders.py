"""Embeddings that the operator has put into a folder: models of the package model2vec.

HINGED_EMBEDDINGS names a folder. Each folder in it with the files `model.safetensors` and `tokenizer.json`, as
model2vec saves them, is an embedding. The package tokenizers finds the tokens. model2vec itself is not needed, and
nothing is downloaded. A client can name an embedding, but no file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hinged.extras import Lacking, needed
from hinged.service.data.features.embeddings.static import StaticWords, digest_of, tensors_of

Array = np.ndarray[Any, Any]

VARIABLE = "HINGED_EMBEDDINGS"
WEIGHTS, TOKENS = "model.safetensors", "tokenizer.json"
WIDTH_MAX = 4096


class FolderWords(StaticWords):
    """The embedding in a folder.

    A model2vec model may have fewer vectors than tokens (`mapping`: the vector of each token), and a weight for each
    token (`weights`). An unknown token counts nothing.
    """

    def __init__(self, tensors: dict[str, Array], tokenizer: Any, digest: str) -> None:
        """Take the arrays and the tokenizer. Raise ValueError if they do not fit each other."""
        embeddings, self._mapping, self._weights = (tensors.get(n) for n in ("embeddings", "mapping", "weights"))
        if embeddings is None or embeddings.ndim != 2 or not 2 <= embeddings.shape[1] <= WIDTH_MAX:
            told = "nothing" if embeddings is None else f"shape {embeddings.shape}"
            raise ValueError(f"embeddings must be a table of 2 to {WIDTH_MAX} columns, got {told}")
        super().__init__(embeddings, digest)
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._unknown = _unknown(tokenizer)
        known = max(tokenizer.get_vocab().values(), default=-1) + 1
        lengths = {len(array) for array in (self._mapping, self._weights) if array is not None}
        held = min(lengths, default=len(embeddings))
        places = np.arange(1) if self._mapping is None else self._mapping
        if known > held or not 0 <= places.min() <= places.max() < len(embeddings):
            raise ValueError(f"{TOKENS} has {known} tokens, {WEIGHTS} has vectors for {held}")

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the known tokens of each text."""
        whole = [text.encode(errors="replace").decode() for text in texts]  # a lone surrogate is no character
        found = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        return [[token for token in each.ids if token != self._unknown] for each in found]

    def vectors(self, tokens: Sequence[int] | Array) -> Array:
        """Return the weighted vectors of tokens."""
        places = tokens if self._mapping is None else self._mapping[tokens]
        found = super().vectors(places)
        return found if self._weights is None else found * np.asarray(self._weights[tokens], np.float64)[:, None]


def _unknown(tokenizer: Any) -> int | None:
    """Return the number of the token that stands for everything unknown; None without such a token."""
    model = tokenizer.model
    number: int | None
    if hasattr(model, "unk_token"):
        number = None if model.unk_token is None else tokenizer.token_to_id(model.unk_token)
    else:  # models.Unigram has only the number, and does not show it
        number = json.loads(tokenizer.to_str())["model"].get("unk_id")
    return number


def folder_names() -> list[str]:
    """Return the names of the embeddings in the operator's folder. Raise ValueError if the folder cannot be read."""
    folder = os.environ.get(VARIABLE)
    try:
        return (
            sorted(path.parent.name for path in Path(folder).resolve(strict=True).glob(f"*/{WEIGHTS}"))
            if folder
            else []
        )
    except OSError as error:
        raise ValueError(f"{VARIABLE}: {folder} cannot be read: {error.strerror}") from None


def in_folder(name: str) -> StaticWords:
    """Return the embedding in the folder with this name, which is read once. Raise ValueError if it cannot be read."""
    return _read(Path(os.environ[VARIABLE], name))


@cache
def _read(folder: Path) -> StaticWords:
    try:
        with needed("text", "an embedding in a folder"):
            from tokenizers import Tokenizer  # noqa: PLC0415
    except Lacking as error:
        raise ValueError(str(error)) from None
    try:
        weights, tokens = folder / WEIGHTS, folder / TOKENS
        return FolderWords(tensors_of(weights), Tokenizer.from_file(str(tokens)), digest_of(weights, tokens))
    except Exception as error:  # noqa: BLE001  tokenizers raises Exception itself
        raise ValueError(f"the embedding in {folder} cannot be read: {error!r:.300}") from None
