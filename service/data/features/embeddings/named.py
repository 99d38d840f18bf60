"""Find an embedding by its name."""

from __future__ import annotations

import re

from hinged.service.data.features.embeddings.folders import VARIABLE, folder_names, in_folder
from hinged.service.data.features.embeddings.static import StaticWords
from hinged.service.data.features.embeddings.wordllama import NAME, wordllama

EMBEDDING_NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"


def embedding_named(name: str) -> StaticWords:
    """Return the embedding with this name. Raise ValueError if it is missing or damaged."""
    if name == NAME:
        return wordllama()
    known = folder_names()
    if name not in known:
        found = f"with {', '.join(known)}" if known else "without an embedding"
        raise ValueError(f"allowed are {NAME} and the folders in {VARIABLE} ({found}), got {name}")
    return in_folder(name)


def read_folders() -> None:
    """Read all embeddings of the operator's folder, so that no request waits for it. Raise ValueError if one is
    damaged, or has a name that no client can give.
    """
    for name in folder_names():
        if name == NAME or re.fullmatch(EMBEDDING_NAME, name) is None:
            raise ValueError(f"{VARIABLE}: a folder's name must match {EMBEDDING_NAME}, except {NAME}, got {name}")
        in_folder(name)
