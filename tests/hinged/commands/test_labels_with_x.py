"""`hinged labels --with-x` writes examples that another model can learn."""

import csv
import io
import itertools
import json

import numpy as np
import pytest

from hinged.service import limits
from tests.helpers.command import hinged

NUMBERS = itertools.count()
rng = np.random.default_rng(5)
DENSE = [[round(v, 3) for v in row] for row in rng.normal(size=(60, 3)).tolist()]
SPARSE = [{"indices": [k % 7, 7 + k % 5], "values": [1.0, 0.25 * (1 + k % 3)]} for k in range(60)]
NAMED = [
    {"size": k % 9, "site": ["north", "south", "east"][k % 3], "day": f"2026-05-{1 + k % 28:02}"} for k in range(60)
]
TEXT = [f"{['win money', 'see you'][k % 2]} at {k % 7} ümlaut" for k in range(60)]
FORMS = {
    "dense": ({"type": "dense", "dim": 3}, DENSE),
    "sparse": ({"type": "sparse", "dim": 12}, SPARSE),
    "named": ({"type": "named"}, NAMED),
    "text": ({"type": "text"}, TEXT),
}


def labelled(xs):
    return [{"id": f"e/{k}", "x": x, "y": ["no", "yes", 3][(k * k) % 3]} for k, x in enumerate(xs)]


@pytest.fixture
def made(client):
    """Return a function that creates a model of this form, which learns nothing yet."""

    def made(form):
        name = f"x{next(NUMBERS)}"
        client.create_model(name, features=FORMS[form][0], solver="lasvm", C=2)
        return name

    return made


@pytest.fixture
def run(real):
    def run(*arguments, stdin=""):
        return hinged(*arguments, "--url", real.url, input=stdin)

    return run


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_another_model_that_learns_the_lines_predicts_the_same(run, client, made, form):
    xs = FORMS[form][1]
    first, second = made(form), made(form)
    client.learn(first, labelled(xs))
    lines = run("labels", first, "--with-x").stdout
    assert [json.loads(line) for line in lines.splitlines()] == labelled(xs)
    run("learn", second, "--batch", 1000, stdin=lines)
    rows = [{"x": x} for x in xs]
    assert client.predict(second, rows)["results"] == client.predict(first, rows)["results"]


def test_the_lines_have_present_labels_and_weights_and_no_forgotten_example(run, client, made):
    model = made("dense")
    examples = labelled(DENSE)
    examples[1]["weight"] = 2.5
    client.learn(model, examples)
    client.wait(client.correct(model, "e/0", "yes"))
    client.wait(client.forget(model, "e/2"))
    found = [json.loads(line) for line in run("labels", model, "--with-x").stdout.splitlines()]
    assert found == [examples[0] | {"y": "yes"}, examples[1], *examples[3:]]


def test_a_page_with_many_values_ends_early_and_the_next_page_continues(client, made):
    model = made("dense")
    client.learn(model, labelled(DENSE))
    whole = client.examples(model, n=1000, x=True)["examples"]
    assert [example["x"] for example in whole] == DENSE
    assert "x" not in client.examples(model)["examples"][0]
    name = f"wide{next(NUMBERS)}"
    dim = limits.LISTED_VALUES_MAX // 4
    client.create_model(name, features={"type": "dense", "dim": dim}, solver="lasvm", kernel={"type": "linear"})
    client.learn(name, [{"id": f"w{k}", "x": [k] + [0] * (dim - 1), "y": k % 2} for k in range(9)])
    page = client.examples(name, n=1000, x=True)
    assert [example["id"] for example in page["examples"]] == ["w0", "w1", "w2", "w3"]
    assert [example["x"][0] for example in client.every_example(name, x=True)] == list(range(9))


def test_an_imported_model_lists_the_x_that_it_still_has(run, client):
    model = f"x{next(NUMBERS)}"  # with scaled columns, the machine's points are not the client's x
    client.create_model(
        model, features={"type": "dense", "dim": 3, "scale": None}, solver="lasvm", kernel={"type": "rbf", "gamma": 1}
    )
    client.learn(model, labelled(DENSE))
    copy = f"x{next(NUMBERS)}"
    client.import_model(copy, client.export_model(model))
    found = list(client.every_example(copy, x=True))
    kept = [example for example in found if example["x"] is not None]
    assert kept
    assert all(example["x"] == DENSE[example["number"] - 1] for example in kept)
    done = run("labels", copy, "--with-x")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [example["id"] for example in kept]
    if len(kept) < len(found):
        assert f"examples without x, left out: {len(found) - len(kept)}" in done.stderr


def test_tables_have_x_as_json(run, client, made):
    model = made("named")
    client.learn(model, labelled(NAMED))
    rows = list(csv.DictReader(io.StringIO(run("labels", model, "--with-x", "--format", "csv").stdout)))
    assert [json.loads(row["x"]) for row in rows] == NAMED
    assert {row["weight"] for row in rows} == {"1.0"}
