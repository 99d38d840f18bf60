"""For every kind of column, one request for a whole file predicts it as well as one request per row."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from tests.helpers.http_client import AskedModel, example

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
LEARNED, PREDICTED = 600, 300
NOISE = 0.08  # maximum difference: three standard errors for 300 rows, and the effect of 300 examples


def moment(k):
    return START + timedelta(minutes=37 * k)


def gone(rng, k):
    """Return times in ascending order. The gaps between them range from seconds to hours."""
    return START + timedelta(minutes=37 * k + rng.random() * 30)


WORDS = ("ice", "snow", "sun", "rain", "wind", "fog")
NAMED = {
    "a number": lambda rng, _: rng.gauss(0, 1),
    "a number with a heavy tail": lambda rng, _: rng.paretovariate(1),
    "a number that never changes": lambda *_: 3,
    "a boolean": lambda rng, _: rng.random() < 0.5,
    "a category": lambda rng, _: rng.choice(WORDS),
    "an identifier": lambda _, k: f"customer {k}",
    "numbers and strings": lambda rng, k: rng.gauss(0, 1) if k % 2 else rng.choice(WORDS),
    "mostly missing": lambda rng, k: None if k % 5 else rng.gauss(0, 1),
    "a day": lambda _, k: moment(k).date().isoformat(),
    "a time at even steps": lambda _, k: moment(k).isoformat(),
    "a time in order": lambda rng, k: gone(rng, k).isoformat(),
    "a time in no order": lambda rng, _: moment(rng.randrange(2000)).strftime("%Y-%m-%d %H:%M"),
    "a text": lambda rng, _: " ".join(rng.choices(WORDS, k=8)),
}  # fmt: skip


def stream(rng, column):
    """Return x and y of rows. y follows from a and b, but one label in ten is random."""
    for k in range(LEARNED + PREDICTED):
        a, b = rng.gauss(0, 1), rng.choice("uvw")
        y = (a + {"u": 1.0, "v": 0.0, "w": -1.0}[b] > 0) ^ (rng.random() < 0.1)
        yield {"a": a, "b": b, "more": column(rng, k)}, "yes" if y else "no"


def shares_right(model, rows):
    """Return the share of the last rows that is predicted correctly: in one request, and one by one with learning in
    between.
    """
    first, last = rows[:LEARNED], rows[LEARNED:]
    model.learn(*(example(x, y) for x, y in first))
    at_once = [result["prediction"] for result in model.predict(*(x for x, _ in last))]
    streamed = [result["prediction"] for result in model.learn(*(example(x, y) for x, y in last))]
    truth = [y for _, y in last]
    return [sum(p == y for p, y in zip(found, truth, strict=True)) / len(truth) for found in (at_once, streamed)]


def trial(ask, solver, features, kind):
    model = AskedModel(ask, f"kind-{solver}-{'-'.join(kind.split())}")
    answer = ask("PUT", model.path, json={"solver": solver, "kernel": {"type": "rbf"}, "features": features})
    assert answer.status_code == 201, answer.text
    return model


def check(at_once, streamed):
    assert streamed > 0.75
    assert at_once > streamed - NOISE


@pytest.mark.long
@pytest.mark.parametrize("solver", ["auto", "lasvm"])
@pytest.mark.parametrize("kind", NAMED)
def test_a_file_predicted_at_once_is_predicted_as_well_as_the_same_rows_streamed(ask, kind, solver):
    columns = {"more": {"type": "text"}} if kind == "a text" else None
    model = trial(ask, solver, {"type": "named", "warmup": 300, "columns": columns}, kind)
    check(*shares_right(model, list(stream(random.Random(11), NAMED[kind]))))


@pytest.mark.long
@pytest.mark.parametrize("since", [["more"], None], ids=["asked for", "of a model that was made when all had it"])
@pytest.mark.parametrize("kind", [kind for kind in NAMED if "time" in kind])
def test_the_same_holds_with_the_time_since_the_example_before_as_a_column(ask, kind, since):
    model = trial(ask, "lasvm", {"type": "named", "warmup": 300, "since": since}, f"{kind} since {since and 1}")
    rows = list(stream(random.Random(11), NAMED[kind]))
    check(*shares_right(model, rows))
    # The same is true of rows far beyond everything learned, if each row is predicted alone.
    late = [{**x, "more": x["more"].replace("2026-", "2031-")} for x, _ in rows[LEARNED:]]
    alone = [model.predict(x)[0]["prediction"] for x in late]
    assert sum(p == y for p, (_, y) in zip(alone, rows[LEARNED:], strict=True)) / PREDICTED > 0.75 - NOISE


NUMBERS = {
    "dense": lambda rng, a, b: [a, *(1.0 * (b == each) for each in "uvw"), 1e6 * rng.random(), rng.paretovariate(1)],
    "sparse": lambda rng, a, b: {
        "indices": [0, 1 + "uvw".index(b), *sorted(rng.sample(range(4, 40), 3))],
        "values": [a, 1.0, *(rng.paretovariate(2) for _ in range(3))],
    },
}


@pytest.mark.parametrize(("form", "scale"), [("dense", "auto"), ("sparse", "auto"), ("sparse", None)])
def test_the_same_holds_for_rows_of_numbers(ask, form, scale):
    rng = random.Random(11)
    rows = [(NUMBERS[form](rng, x["a"], x["b"]), y) for x, y in stream(rng, NAMED["a number"])]
    features = {"type": form, "dim": 6 if form == "dense" else 40, "warmup": 300, "scale": scale}
    check(*shares_right(trial(ask, "lasvm", features, f"{form} {scale}"), rows))
