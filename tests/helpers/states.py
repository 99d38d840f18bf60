"""Compare the states of models."""

import hashlib

import pytest

from hinged.frames import BadFrame, decode, encode
from hinged.service.engine.history import ModelHistory
from hinged.service.model.jobs import Jobs
from hinged.service.model.state import SNAPSHOT

LATER_LABELS = {"combine": "majority"}
"""Parts of `labels` that 0.2.0 does not have, with their defaults. While a part has its default, no hash has it."""


def digest_of(model, without=None):
    """Return a hash of a model's state without positions and times. It is the same however the events were batched.

    Learning curves are left out, because their points depend on where micro-batches ended.

    without: for a state of an older version, the parameters to leave out of each solver's configuration. The hash then
    also leaves out the parts that older versions do not have: annotators, revisions, skipped leases, the settings for
    showing an x, for guides, tie breakers, calibration, decisions, watched classes, segments,
    promises, alarms, novelty and receipts, and the settings of features that are off.
    """
    facts, arrays = decode(model.snapshot(), SNAPSHOT)
    for learner in (facts["learner"], *facts["shadows"].values()):
        for name in (without or {}).get(learner["configuration"]["solver"], ()):
            del learner["configuration"][name]
        labels = learner["configuration"]["labels"]
        for name, default in LATER_LABELS.items():
            if labels.get(name) == default:
                del labels[name]
        if without is not None:
            del learner["configuration"]["show"]
            for name in ("tie_breakers", "guide"):
                del learner["configuration"]["labels"][name]
            of_metrics = ("calibration", "costs", "watch", "segments", "promise", "alarm")
            for name in (*of_metrics, "capacity", "explore", "novelty", "receipts"):
                del learner["configuration"][name]
            features = learner["configuration"]["features"]
            given = {name: value for name, value in features.items() if value is not None and value is not False}
            learner["configuration"]["features"] = given
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


def refuse_damaged(model, damage, **sizes):
    """Check that a snapshot of a model is refused after a damage. damage: changes the facts and the arrays in place."""
    facts, arrays = decode(model.snapshot(), SNAPSHOT)
    damage(facts, arrays)
    with pytest.raises((ValueError, BadFrame)):
        type(model).restore(model.name, encode(SNAPSHOT, facts, arrays), **sizes)


def load_model(store, name, *, cache_bytes, answers_kept):
    """Load a model from its log. Raise Damaged, ValueError or Conflict if the log cannot be read."""
    return ModelHistory(store, name, cache_bytes=cache_bytes, answers_kept=answers_kept).newest()
