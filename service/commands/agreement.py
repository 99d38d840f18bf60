"""Agreement between annotators: Cohen's kappa and the reliability of each, computed from the stored answers. Several
labels of an example are combined by the reliabilities if the configuration says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from hinged.service import limits
from hinged.service.data.classes import Label, label_key
from hinged.service.model.model import Model

STEPS_MAX = 100  # maximum number of steps of an estimate
EQUAL = 9  # decimals of probabilities that are compared: equal votes must not differ by rounding
TOLERANCE = 1e-6  # largest change of a probability at which an estimate ends
RIGHT, WRONG = 8.0, 2.0
"""Each annotator begins with so many right and wrong answers. With few answers the estimates are nearer to the truth
than without (docs/lab/labelling.md)."""


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of two annotators' labels for the same examples. Return None without examples, or if both
    annotators gave every example the same label.
    """
    n = len(pairs)
    ones, others = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    chance = sum(count * others[label] for label, count in ones.items())  # in units of 1 / (n * n)
    if chance == n * n:
        return None
    return (n * sum(one == other for one, other in pairs) - chance) / (n * n - chance)


class Truths(NamedTuple):
    """Estimated true labels, and the estimated share of right answers of each annotator.

    examples, labels: their names. chances (examples, labels): the probability of each label.
    """

    examples: Sequence[str] = ()
    labels: Sequence[str] = ()
    chances: np.ndarray[Any, Any] = np.zeros((0, 0))
    reliabilities: Mapping[str, float] = {}


def truths(answers: Sequence[tuple[str, str, str]]) -> Truths:
    """Estimate the true labels together with the share of right answers of each annotator. An answer is (example,
    annotator, label); an example has several answers. Wrong labels are equally probable.

    Source: Dawid and Skene, Applied Statistics 28 (1979), section 3, with one rate for each annotator in place of a
    rate for each pair of labels, and with a beginning for each annotator.
    """
    names = [list(dict.fromkeys(column)) for column in zip(*answers, strict=True)]
    if not names:
        return Truths()
    places = [{name: k for k, name in enumerate(known)} for known in names]
    example, annotator, label = np.array([[at[name] for at, name in zip(places, a, strict=True)] for a in answers]).T
    examples, labels = len(names[0]), len(names[2])
    given = np.bincount(annotator)
    true = np.zeros((examples, labels))  # probability of each label
    np.add.at(true, (example, label), 1.0)
    true /= true.sum(axis=1, keepdims=True)
    for _ in range(STEPS_MAX):
        rates = (np.bincount(annotator, true[example, label]) + RIGHT) / (given + RIGHT + WRONG)
        weights = np.log(rates * max(labels - 1, 1) / (1.0 - rates))
        likely = np.zeros((examples, labels))
        np.add.at(likely, (example, label), weights[annotator])
        before, true = true, np.exp(likely - likely.max(axis=1, keepdims=True))
        true /= true.sum(axis=1, keepdims=True)
        if np.abs(true - before).max() < TOLERANCE:
            break
    right = np.bincount(annotator, true[example, label]) / given
    return Truths(names[0], names[2], true, dict(zip(names[1], right.tolist(), strict=True)))


def combined(model: Model, given: str, votes: Sequence[tuple[str, Label]]) -> Label:
    """Return the most probable label of a candidate among the labels that annotators gave it, given what they said
    about other examples; the earliest among equals.
    """
    by_example = {**_shared(model), given: dict(votes)}
    found = truths([(e, a, label_key(label)) for e, own in by_example.items() for a, label in own.items()])
    chances = dict(zip(found.labels, found.chances[found.examples.index(given)].tolist(), strict=True))
    return max((label for _, label in votes), key=lambda label: round(chances[label_key(label)], EQUAL))


def _shared(model: Model) -> dict[str, dict[str, Label]]:
    """Return the stored answers of each example with several annotators, by annotator."""
    answers: dict[str, dict[str, Label]] = defaultdict(dict)
    for answer in model.annotators:
        answers[answer.id][answer.annotator] = answer.label
    return {given: own for given, own in answers.items() if len(own) > 1}


def agreement(model: Model) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return each annotator's agreement with the current labels, and the agreement of pairs of annotators. The pairs
    that share the most examples come first.

    Only examples with several annotators count. If only one annotator answered, this answer is the current label and
    would agree with itself.
    """
    labels = model.labels.labels
    shared: list[tuple[str, str, str]] = []
    standing: dict[str, list[tuple[str, str]]] = defaultdict(list)
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for given, by_annotator in _shared(model).items():
        number = model.answers.number_of(given)
        label = None if number is None else model.corrections.get(number, model.answers.label_of(number))
        for annotator, own in by_annotator.items():
            shared.append((given, annotator, label_key(own)))
            if label is not None:
                standing[annotator].append((label_key(own), label_key(labels[label])))
        for one, other in combinations(sorted(by_annotator), 2):
            pairs[one, other].append((label_key(by_annotator[one]), label_key(by_annotator[other])))
    most = sorted(pairs.items(), key=lambda item: (-len(item[1]), item[0]))[: limits.PAIRS_MAX]
    reliable = truths(shared).reliabilities
    return (
        {
            name: {
                "shared": len(standing[name]),
                "kappa": kappa(standing[name]),
                "reliability": reliable.get(name),
            }
            for name in dict.fromkeys([*standing, *reliable])
        },
        [
            {
                "annotators": [*both],
                "examples": len(found),
                "same": sum(one == other for one, other in found),
                "kappa": kappa(found),
            }
            for both, found in most
        ],
    )
