"""The five jobs with Vowpal Wabbit. `serve` is the program for River with these functions."""

from vowpalwabbit import Workspace


def new():
    return Workspace("--loss_function logistic --link logistic --quiet")


def line(x, y=None):
    label = "" if y is None else "1 " if y == "yes" else "-1 "
    return label + "| " + " ".join(f"{name}:{value}" for name, value in x.items())


def late_labels(model, events):
    """Learn a stream whose labels come late. Labels and inputs that wait are lost if the process dies."""
    waiting = {}
    for key, x, y in events:
        if y is None:
            waiting[key] = x
            model.predict(line(x))
        else:
            model.learn(line(waiting.pop(key), y))


def next_labels(model, pool, answer, count):
    """Ask for the label of the least certain example. `--active` decides about a stream, not a pool."""
    left = {key: x for key, x, _ in pool}
    for _ in range(count):
        key = min(left, key=lambda key: abs(model.predict(line(left[key])) - 0.5))
        model.learn(line(left.pop(key), answer(key)))


def forget(kept, key):
    """Forget an example: train a new model without it. You keep all examples, and delete their copies yourself."""
    kept[:] = [example for example in kept if example[0] != key]
    model = new()
    for _, x, y in kept:
        model.learn(line(x, y))
    return model


def wrong_labels(model, kept, count):
    """Find the examples whose labels are probably wrong: the model gives them the lowest probability."""
    doubt = {key: abs((y == "yes") - model.predict(line(x))) for key, x, y in kept}
    return sorted(doubt, key=doubt.get, reverse=True)[:count]
