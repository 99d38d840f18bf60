"""Agreement between annotators beyond chance: Cohen's kappa, computed from the stored answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from hinged.service import limits
from hinged.service.data.classes import Label, label_key
from hinged.service.model.model import Model


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
    standing: dict[str, list[tuple[str, str]]] = defaultdict(list)
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for given, by_annotator in answers.items():
        if len(by_annotator) < 2:
            continue
        number = model.answers.number_of(given)
        label = None if number is None else model.corrections.get(number, model.answers.label_of(number))
        for annotator, own in by_annotator.items():
            if label is not None:
                standing[annotator].append((label_key(own), label_key(labels[label])))
        for one, other in combinations(sorted(by_annotator), 2):
            pairs[one, other].append((label_key(by_annotator[one]), label_key(by_annotator[other])))
    most = sorted(pairs.items(), key=lambda item: (-len(item[1]), item[0]))[: limits.PAIRS_MAX]
    return (
        {name: {"shared": len(found), "kappa": kappa(found)} for name, found in standing.items()},
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
