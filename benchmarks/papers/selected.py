"""Learn selected examples of a training set: the algorithm of section 4.3 of the LASVM paper, without its finishing
step.
"""

from typing import NamedTuple

import numpy as np

from hinged.solvers.scores.selection import (
    ACTIVE,
    AUTO_CHUNK,
    AUTO_SEARCHED,
    AUTO_WANTED,
    AUTOACTIVE,
    RANDOM,
    Unseen,
    distances,
    informativeness,
    is_wanted,
)

SEARCHED = 50  # number of examples that gradient and active compare per choice: M of section 4.3
SEEDS = 5  # number of random examples of each class with which a solver begins


class Selection(NamedTuple):
    """A chosen example: its number, |f(x)| and `is_wanted` before it is learned, and how many examples were compared.

    If no examples were compared (random, and the seeds), distance is NaN and wanted is true.
    """

    example: int
    distance: float
    wanted: bool
    looked_at: int


def learn_selected(solver, rows, classes, random, *, strategy=ACTIVE, searched=SEARCHED):
    """Make a solver learn selected examples of a training set, one by one; yield each after it is learned.

    This is the algorithm of section 4.3 without its finishing step. The caller does that step: end the iteration, then
    call `finish`. No example is selected twice. rows, classes (m,): as for `learn`; the key of an example is its
    number. random: one-element uint64 state of core/random.py; the same state gives the same choices. searched: M, for
    gradient and active. SEEDS random examples of each class are learned first.
    """
    unseen = Unseen(len(rows), random)
    first = _seeds(unseen, classes)
    while unseen.left:
        if first:
            choice = _blind(unseen, first.pop())
        elif strategy == RANDOM:
            unseen.draw(1)
            choice = _blind(unseen, 0)
        elif strategy == AUTOACTIVE:
            choice = _search_until_wanted(solver.view(), rows, unseen)
        else:
            choice = _search(solver.view(), rows, classes, unseen, strategy, searched)
        k = np.array([choice.example])
        solver.learn(rows.part(choice.example, choice.example + 1), classes[k], k)
        yield choice


def _seeds(unseen, classes):
    """Return the ascending places of the first examples of each class in a random order. Remove them from the end."""
    order = classes[unseen.draw(unseen.left)]
    places = [np.flatnonzero(order == c)[:SEEDS] for c in np.unique(order)]
    return [int(p) for p in np.sort(np.concatenate(places))]


def _blind(unseen, place):
    return Selection(unseen.remove(place), np.nan, wanted=True, looked_at=0)


def _search(view, rows, classes, unseen, strategy, searched):
    """Do a randomised search (section 4.3): choose the best example of a sample."""
    sample = unseen.draw(searched)
    scores = view.decision(rows.take(sample))
    place = int(informativeness(strategy, scores, classes[sample]).argmax())
    return _choice(scores, view, unseen, place)


def _search_until_wanted(view, rows, unseen):
    """Choose the closest example of a sample that ends with its fifth example inside the margin."""
    sample = unseen.draw(AUTO_SEARCHED)
    scores = np.empty((0, view.delta.size))
    for begin in range(0, sample.size, AUTO_CHUNK):
        scores = np.concatenate((scores, view.decision(rows.take(sample[begin : begin + AUTO_CHUNK]))))
        inside = np.flatnonzero(is_wanted(scores, view.delta))
        if inside.size >= AUTO_WANTED:
            scores = scores[: inside[AUTO_WANTED - 1] + 1]
            break
    return _choice(scores, view, unseen, int(distances(scores).argmin()))


def _choice(scores, view, unseen, place):
    chosen = scores[place : place + 1]
    return Selection(
        unseen.remove(place),
        float(distances(chosen)[0]),
        wanted=bool(is_wanted(chosen, view.delta)[0]),
        looked_at=scores.shape[0],
    )
