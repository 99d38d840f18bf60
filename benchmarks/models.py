"""A model of the server inside a benchmark. Not a program."""

import json

import numpy as np

from hinged.service.data.configuration import new_configuration
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.learner import ModelLearner
from hinged.service.settings import Settings


def new_learner(width, cache_bytes=2**27, **parts):
    """Return a learner with an RBF kernel and dense features, unless these parts of a configuration say otherwise."""
    body = {"kernel": {"type": "rbf"}, "features": {"type": "dense", "dim": width}, **parts}
    return ModelLearner(new_configuration(json.dumps(body), Settings()), cache_bytes)


def learned(begin, x, classes):
    """Return the event of a batch: examples from row `begin` on, with an x in the model's form, and classes (m,)."""
    m = len(classes)
    return ExamplesLearned(begin + 1, [None] * m, classes, x, [b""] * m, 0, np.zeros(m, np.uint8))
