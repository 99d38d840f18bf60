"""Agreement between annotators: Cohen's kappa and the reliability of each, computed from the stored answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from hinged.service import limits
from hinged.service.data.classes import Label, label_key
from hinged.service.model.model import Model

STEPS_MAX = 100  # maximum number of steps of an estimate
TOLERANCE = 1e-6  # largest change of a probability at which an estimate ends
LEAST = 1e-10  # smallest share of a label: its logarithm stays finite
RIGHT = 2.0
"""For each label, an annotator begins with this many right answers, and with one more that is spread over all labels.
With few answers the estimates are a tenth nearer to the truth than without (docs/lab/labelling.md)."""


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


def reliabilities(answers: Sequence[tuple[str, str, str]]) -> dict[str, float]:
    """Return for each annotator the estimated share of the annotator's answers that are right. An answer is (example,
    annotator, label); an example has several answers.

    The estimate finds the true labels together with the rates at which each annotator confuses labels. Return nothing
    if there are too many annotators and labels to have all these rates.

    Source: Dawid and Skene, Applied Statistics 28 (1979), section 3, with a beginning for each annotator.
    """
    names = [list(dict.fromkeys(column)) for column in zip(*answers, strict=True)]
    if not names or len(names[1]) * len(names[2]) ** 2 > limits.CONFUSIONS_MAX:
        return {}
    places = [{name: k for k, name in enumerate(known)} for known in names]
    example, annotator, label = np.array([[at[name] for at, name in zip(places, a, strict=True)] for a in answers]).T
    examples, annotators, labels = map(len, names)
    true = np.zeros((examples, labels))  # probability of each label
    np.add.at(true, (example, label), 1.0)
    true /= true.sum(axis=1, keepdims=True)
    for _ in range(STEPS_MAX):
        confused = np.tile(RIGHT * np.eye(labels) + 1.0 / labels, (annotators, 1, 1))  # annotator, answer, true label
        np.add.at(confused, (annotator, label), true[example])
        rates = np.log(confused / confused.sum(axis=1, keepdims=True))
        likely = np.tile(np.log(np.maximum(true.mean(axis=0), LEAST)), (examples, 1))
        np.add.at(likely, example, rates[annotator, label])
        before, true = true, np.exp(likely - likely.max(axis=1, keepdims=True))
        true /= true.sum(axis=1, keepdims=True)
        if np.abs(true - before).max() < TOLERANCE:
            break
    right = np.bincount(annotator, true[example, label]) / np.bincount(annotator)
    return dict(zip(names[1], right.tolist(), strict=True))


def agreement(model: Model) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return each annotator's agreement with the current labels, and the agreement of pairs of annotators. The pairs
    that share the most examples come first.

    Only examples with several annotators count. If only one annotator answered, this answer is the current label and
    would agree with itself.
    """
    labels = model.labels.labels
    answers: dict[str, dict[str, Label]] = defaultdict(dict)
    for answer in model.annotators:
        answers[answer.id][answer.annotator] = answer.label
    shared: list[tuple[str, str, str]] = []
    standing: dict[str, list[tuple[str, str]]] = defaultdict(list)
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for given, by_annotator in answers.items():
        if len(by_annotator) < 2:
            continue
        number = model.answers.number_of(given)
        label = None if number is None else model.corrections.get(number, model.answers.label_of(number))
        for annotator, own in by_annotator.items():
            shared.append((given, annotator, label_key(own)))
            if label is not None:
                standing[annotator].append((label_key(own), label_key(labels[label])))
        for one, other in combinations(sorted(by_annotator), 2):
            pairs[one, other].append((label_key(by_annotator[one]), label_key(by_annotator[other])))
    most = sorted(pairs.items(), key=lambda item: (-len(item[1]), item[0]))[: limits.PAIRS_MAX]
    reliable = reliabilities(shared)
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
