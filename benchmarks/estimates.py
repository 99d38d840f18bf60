"""How often the 95 % intervals of estimates hold (service/model/estimates.py), in simulated labelling runs.

    PYTHONPATH=.:benchmarks python benchmarks/estimates.py [--runs 500] [--only NAME ...]

Each run is a model of the server with LASVM (C = 1), whose questions or wanted labels the server's own code chooses. In
the runs called "pool", an annotator answers 600 questions about 10,000 candidates, five at a time; the share in the
name is drawn at random. In the runs called "budget", 6,000 examples are predicted in batches of 50, and the wanted
labels come after each batch; the name has the budget and `explore`. The truth is what the model of that moment says
about the candidates that are left, or about 10,000 further examples. "Random only" is the interval from the labels that
were drawn at random alone.
"""

import argparse
import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import json

import numpy as np
from results import Table, keep

from hinged.service.commands.ask import LabelBudget, choose
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.features.rows import dense_rows
from hinged.service.data.inputs import content_of, x_digests
from hinged.service.model.estimates import WantedLabels
from hinged.service.model.events.labelling import CandidatesOffered
from hinged.service.model.events.learning import ExamplesLearned, PredictionsMade
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.model.pool import EXPLORE, RANDOM
from hinged.service.settings import Settings

POOL, ANSWERS, AT_ONCE, SEARCH = 10_000, 600, 5, 200
STREAM, BATCH, KNOWN, HELD_OUT = 6_000, 50, 50, 10_000
FIGURES = ("accuracy", "share", "precision", "recall", "random only")


def curved(n, random):
    """Return two classes with a curved boundary; 48 % are of the second class."""
    X = random.normal(size=(n, 5))
    return X, X[:, 0] + X[:, 1] ** 2 - 1 + 0.3 * random.normal(size=n) > 0


def rare(n, random):
    """Return two classes; 8 % are of the second class."""
    X = random.normal(size=(n, 4))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * random.normal(size=n) > 2


SETS = {"curved": curved, "rare": rare}
RUNS = (
    *(("pool", "curved", explore, None) for explore in (1.0, 0.2)),
    ("budget", "curved", 0.1, 0.2),
    ("budget", "rare", 0.5, 0.2),
)


class Labelled:
    """A model, and its examples X with the true classes y."""

    def __init__(self, X, y, **labels):
        body = {"solver": "lasvm", "C": 1, "kernel": {"type": "rbf"}, "features": {"type": "dense", "dim": X.shape[1]}}
        body |= {"classes": ["no", "yes"], "labels": labels}
        self.configuration = parse_configuration(json.dumps(body), Settings())
        self.model = Model("m", self.configuration, cache_bytes=2**26, answers_kept=1_000)
        self.model.apply(1, ModelCreated(self.configuration.model_dump(mode="json"), 0))
        self.rows, self.y = dense_rows(X.astype(np.float32), self.configuration), y.astype(np.int32)
        self.digests, self.names = x_digests(self.rows), self.model.labels.labels

    def apply(self, event):
        """Apply an event."""
        self.model.apply(self.model.position + 1, event)

    def learn(self, places, sources):
        """Learn the examples at these places."""
        ids, classes = [f"e{r}" for r in places], self.y[places]
        contents = [content_of(self.digests[r], self.names[self.y[r]]) for r in places]
        rows, first = self.rows.take(np.array(places)), self.model.learned + 1
        self.apply(ExamplesLearned(first, ids, classes, rows, contents, 0, np.array(sources, np.uint8)))

    def truth(self, places):
        """Return the true figures of the present model on these examples."""
        said, y = self.model.published().decide(self.rows.take(places)).numbers, self.y[places]
        right, yes = said == y, y == 1
        found = {"accuracy": right.mean(), "share": yes.mean()}
        found |= {"precision": right[said == 1].mean() if (said == 1).any() else np.nan, "recall": right[yes].mean()}
        return found | {"random only": found["accuracy"]}

    def told(self):
        """Return the estimates of the present model."""
        found = self.model.metrics.figures(self.names).get("estimate")
        if found is None:
            return {}
        random = self.model.metrics._tallies.get("random")  # noqa: SLF001  what the estimate would be without weights
        alone = None if random is None else WantedLabels.alike(random).figures(())["accuracy"]
        return {"accuracy": found["accuracy"], **found["classes"]["yes"], "random only": alone}


def questions(make, seed, explore, _):
    """Yield the estimates and the truth while an annotator answers questions about a pool."""
    run = Labelled(*make(POOL, np.random.default_rng(seed)), explore=explore)
    candidates = [f"e{r}" for r in range(POOL)]
    run.apply(CandidatesOffered(candidates, run.rows, run.digests, [None] * POOL, 0))
    for answered in range(AT_ONCE, ANSWERS + 1, AT_ONCE):
        eligible = run.model.pool.askable("ann", 0, 1)
        # The server's seed and position decide what is drawn; the random order makes the runs differ.
        order = np.random.default_rng((seed, answered)).choice(len(eligible), 10 * SEARCH, replace=False)
        chosen = choose(run.model, [eligible[r] for r in order], AT_ONCE, "active", SEARCH)
        sources = [2 if choice.reason in (EXPLORE, RANDOM) else 1 for choice in chosen]
        run.learn([int(choice.candidate.id[1:]) for choice in chosen], sources)
        if answered in (ANSWERS // 4, ANSWERS // 2, ANSWERS):
            left = np.array([int(candidate.id[1:]) for candidate in run.model.pool])
            yield answered, run.told(), run.truth(left)


def stream(make, seed, explore, budget):
    """Yield the estimates and the truth while wanted labels come."""
    run = Labelled(*make(STREAM + HELD_OUT, np.random.default_rng(seed)), explore=explore, budget=budget)
    wanting = LabelBudget(seed, run.configuration.labels)
    run.learn(range(KNOWN), [0] * KNOWN)
    for begin in range(KNOWN, STREAM, BATCH):
        published, places = run.model.published(), range(begin, begin + BATCH)
        decided = published.decide(run.rows.part(begin, begin + BATCH))
        wishes = wanting.wishes([f"e{r}" for r in places], published.doubtful(decided.columns).tolist())
        waiting = [
            Prediction(
                id=f"e{r}",
                x=run.rows.part(r, r + 1),
                digest=run.digests[r],
                columns=columns,
                number=number,
                source=wish.source,
                at_ms=0,
                chance=wish.probability,
            )
            for r, columns, number, wish in zip(places, decided.columns, decided.numbers.tolist(), wishes, strict=True)
            if wish.wanted
        ]
        if waiting:
            run.apply(PredictionsMade(waiting, 0))
            run.learn([int(each.id[1:]) for each in waiting], [each.source for each in waiting])
        if begin + BATCH in (STREAM // 4, STREAM // 2, STREAM):
            yield begin + BATCH, run.told(), run.truth(np.arange(STREAM, STREAM + HELD_OUT))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    table = Table("runs", "answers or predictions", *FIGURES, title="Intervals that hold in %, and their mean width")
    for kind, name, explore, budget in RUNS:
        title = f"{kind}, {name}, {f'{budget:g}, ' if budget else ''}{explore:g}"
        if given.only and title not in given.only:
            continue
        found = {}
        for seed in range(given.runs):
            for at, told, truth in (questions if kind == "pool" else stream)(SETS[name], seed, explore, budget):
                for figure in FIGURES:
                    if told.get(figure) is not None and not np.isnan(truth[figure]):
                        low, high = told[figure]["low"], told[figure]["high"]
                        held = low - 1e-9 <= truth[figure] <= high + 1e-9
                        found.setdefault((at, figure), []).append((held, high - low))
        for at in sorted({at for at, _ in found}):
            means = [np.mean(found[at, figure], axis=0) if (at, figure) in found else None for figure in FIGURES]
            table.add(title, at, *(None if m is None else f"{100 * m[0]:.1f}, {m[1]:.3f}" for m in means))
    keep("estimates", table)


if __name__ == "__main__":
    main()
