"""The five jobs with hinged. `client` is a hinged.Client, and the server runs."""


def new(client, name):
    client.create_model(name, features={"type": "named"}, solver="lasvm", kernel={"type": "rbf", "gamma": 0.5})


def late_labels(client, events):
    """Learn a stream whose labels come late. Nothing is lost if a process dies."""
    for key, x, y in events:
        if y is None:
            client.predict("late", {"id": key, "x": x})
        else:
            client.learn("late", {"id": key, "y": y})


def next_labels(client, pool, answer, count):
    """Ask for the labels that help most."""
    client.offer("asked", [{"id": key, "x": x} for key, x, _ in pool])
    for _ in range(count):
        (question,) = client.query("asked", n=1, annotator="ann")["queries"]
        client.learn("asked", {"id": question["id"], "y": answer(question["id"]), "lease": question["lease"]})


def forget(client, key):
    """Forget an example for good: in the model, in the log and in the files."""
    client.wait(client.forget("late", key))


def serve():
    """Predict and learn over HTTP. Nothing acknowledged is lost after kill -9."""
    return ["hinged", "serve"]


def wrong_labels(client, count):
    """Find the examples whose labels are probably wrong."""
    return [suspect["id"] for suspect in client.suspects("late", n=count)["suspects"]]
