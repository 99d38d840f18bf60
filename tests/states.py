"""Comparing models by what they have come to."""

import hashlib

from hinged.service.frames import decode, encode
from hinged.service.model.state import SNAPSHOT


def digest_of(model):
    """A hash of the whole state but positions and time: equal for equal folds, however they were batched."""
    facts, arrays = decode(model.snapshot(), SNAPSHOT)
    for name in ("position", "at_ms", "undone", "reads_back_at", "floor", "jobs", "set_aside"):
        del facts[name]
    return hashlib.sha256(encode(SNAPSHOT, facts, arrays)).hexdigest()
