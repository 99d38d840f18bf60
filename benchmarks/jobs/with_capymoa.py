"""The five jobs with CapyMOA. `serve` is the program for River with these functions."""

import numpy as np
from capymoa.classifier import NaiveBayes
from capymoa.core import Instance, LabeledInstance
from capymoa.stream import Schema

SCHEMA = Schema.from_custom(["a", "b", "y"], "y", categories={"y": ["no", "yes"]}, name="jobs")


def new():
    return NaiveBayes(SCHEMA)


def instance(x, y=None):
    values = np.array(list(x.values()))
    if y is None:
        return Instance.from_array(SCHEMA, values)
    return LabeledInstance.from_array(SCHEMA, values, int(y == "yes"))


def probabilities(model, x):
    found = model.predict_proba(instance(x))
    return (0.5, 0.5) if found is None else found


def late_labels(model, events):
    """Learn a stream whose labels come late. Labels and inputs that wait are lost if the process dies."""
    waiting = {}
    for key, x, y in events:
        if y is None:
            waiting[key] = x
            model.predict(instance(x))
        else:
            model.train(instance(waiting.pop(key), y))


def next_labels(model, pool, answer, count):
    """Ask for the label of the least certain example. CapyMOA's own tools decide about a stream, not a pool."""
    left = {key: x for key, x, _ in pool}
    for _ in range(count):
        key = min(left, key=lambda key: max(probabilities(model, left[key])))
        model.train(instance(left.pop(key), answer(key)))


def forget(kept, key):
    """Forget an example: train a new model without it. You keep all examples, and delete their copies yourself."""
    kept[:] = [example for example in kept if example[0] != key]
    model = new()
    for _, x, y in kept:
        model.train(instance(x, y))
    return model


def wrong_labels(model, kept, count):
    """Find the examples whose labels are probably wrong: the model gives them the lowest probability."""
    doubt = {key: probabilities(model, x)[int(y == "yes")] for key, x, y in kept}
    return sorted(doubt, key=doubt.get)[:count]
