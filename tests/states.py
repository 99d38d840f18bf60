"""Comparing models by what they have come to."""

import hashlib

from hinged.service.frames import decode, encode
from hinged.service.model.jobs import Jobs
from hinged.service.model.state import SNAPSHOT


def digest_of(model):
    """A hash of the whole state but positions and time: equal for equal folds, however they were batched."""
    facts, arrays = decode(model.snapshot(), SNAPSHOT)
    facts |= {"position": 0, "at_ms": 0, "undone": [], "reads_back_at": 0, "floor": 0, "set_aside": []}
    facts["jobs"] = Jobs().state()
    return hashlib.sha256(encode(SNAPSHOT, facts, arrays)).hexdigest()
