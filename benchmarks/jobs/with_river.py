"""The five jobs with River. All state is in the memory of the program, except in `serve`."""

from river import linear_model, optim, preprocessing


def new():
    return preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.1))


def late_labels(model, events):
    """Learn a stream whose labels come late. Labels and inputs that wait are lost if the process dies."""
    waiting = {}
    for key, x, y in events:
        if y is None:
            waiting[key] = x
            model.predict_one(x)
        else:
            model.learn_one(waiting.pop(key), y == "yes")


def next_labels(model, pool, answer, count):
    """Ask for the label of the least certain example. River's module `active` decides about a stream, not a pool."""
    left = {key: x for key, x, _ in pool}
    for _ in range(count):
        key = min(left, key=lambda key: abs(model.predict_proba_one(left[key]).get(True, 0.5) - 0.5))
        model.learn_one(left.pop(key), answer(key) == "yes")


def forget(kept, key):
    """Forget an example: train a new model without it. You keep all examples, and delete their copies yourself."""
    kept[:] = [example for example in kept if example[0] != key]
    model = new()
    for _, x, y in kept:
        model.learn_one(x, y == "yes")
    return model


def serve(path):
    """Predict and learn over HTTP. The log makes learned examples durable, and a restart learns it again."""
    import json
    import os

    from fastapi import FastAPI

    app, model, known = FastAPI(), new(), set()
    log = open(path, "a+")
    log.seek(0)
    for line in log:
        if line.endswith("\n"):
            example = json.loads(line)
            known.add(example["id"])
            model.learn_one(example["x"], example["y"])

    @app.post("/predict")
    async def predict(x: dict):
        return model.predict_proba_one(x)

    @app.post("/learn")
    async def learn(example: dict):
        if example["id"] not in known:
            log.write(json.dumps(example) + "\n")
            log.flush()
            os.fsync(log.fileno())
            known.add(example["id"])
            model.learn_one(example["x"], example["y"])

    return app


def wrong_labels(model, kept, count):
    """Find the examples whose labels are probably wrong: the model gives them the lowest probability."""
    doubt = {key: model.predict_proba_one(x)[y == "yes"] for key, x, y in kept}
    return sorted(doubt, key=doubt.get)[:count]
