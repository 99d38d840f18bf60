"""Comparing models by what they have come to."""

import hashlib

from hinged.frames import decode, encode
from hinged.service.engine.history import ModelHistory
from hinged.service.model.jobs import Jobs
from hinged.service.model.state import SNAPSHOT


def digest_of(model, without=None):
    """A hash of the whole state but positions and time: equal for equal folds, however they were batched.

    Learning curves are left out: their points stand where micro-batches ended.

    without: by solver, the parameters of a configuration that do not count; of an older version, which knew no
    annotators and no revisions, nothing of how an x is shown, for whom a lease was skipped, who decides between labels
    or what makes probabilities, and less of features than there is now.
    """
    facts, arrays = decode(model.snapshot(), SNAPSHOT)
    for learner in (facts["learner"], *facts["shadows"].values()):
        for name in (without or {}).get(learner["configuration"]["solver"], ()):
            del learner["configuration"][name]
        if without is not None:
            del learner["configuration"]["show"], learner["configuration"]["labels"]["tie_breakers"]
            del learner["configuration"]["calibration"]
            features = learner["configuration"]["features"]
            said = {name: value for name, value in features.items() if value is not None and value is not False}
            learner["configuration"]["features"] = said
    facts |= {"position": 0, "at_ms": 0, "undone": [], "reads_back_at": 0, "floor": 0, "set_aside": []}
    facts["jobs"] = Jobs().state()
    facts.pop("curves", None)
    for answered in facts["annotators"]["answers"]:
        answered["at_ms"] = 0
    if without is not None:
        del facts["annotators"], facts["revisions"]
        for candidate in facts["pool"]["candidates"]:
            for lease in candidate["leases"]:
                lease.pop("skipped", None)
    arrays = {name: array for name, array in arrays.items() if not name.startswith("curves.")}
    return hashlib.sha256(encode(SNAPSHOT, facts, arrays)).hexdigest()


def load_model(store, name, *, cache_bytes, answers_kept):
    """A model as its log says. Damaged, ValueError or Conflict where that cannot be read."""
    return ModelHistory(store, name, cache_bytes=cache_bytes, answers_kept=answers_kept).newest()
