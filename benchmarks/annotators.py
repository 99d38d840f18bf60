"""Compare the estimated reliabilities of annotators with the shares of right answers, and labels that are combined by
reliability with the majority.

    PYTHONPATH=.:benchmarks python benchmarks/annotators.py

For the first table, three annotators are right with a probability from 0.55 to 0.98. Two or three of them label each
example. In the columns, an annotator begins with so many right and wrong answers. For the second table, all annotators
label each of 300 examples. The label of an example is combined by what they have said until then.
"""

from collections import Counter
from types import SimpleNamespace

import numpy as np
from results import line, lines

from hinged.service.commands import agreement
from hinged.service.model.annotators import Annotators

DRAWS, RUNS, EXAMPLES = 150, 20, 300
BEGINNINGS = (2.0, 1.0), (8.0, 2.0), (16.0, 4.0)
CROWDS = [0.95, 0.6, 0.6], [0.95, 0.8, 0.7, 0.6, 0.5], [0.9, 0.9, 0.5], [0.8, 0.8, 0.8], [0.95, 0.7]


def answers_of(random, examples, labels):
    """Return random answers (example, annotator, label), and each annotator's share of right answers."""
    accuracy, answers, right = random.uniform(0.55, 0.98, 3), [], {}
    share = random.dirichlet(np.full(labels, 5.0))
    for example in range(examples):
        true = random.choice(labels, p=share)
        for annotator in random.choice(3, 2 + (random.random() < 0.3), replace=False):
            label = true if random.random() < accuracy[annotator] else (true + 1 + random.integers(labels - 1)) % labels
            answers.append((str(example), str(annotator), str(label)))
            right.setdefault(str(annotator), []).append(label == true)
    return answers, {annotator: np.mean(own) for annotator, own in right.items()}


def combined_labels(random, accuracies, labels):
    """Return the shares of right labels by majority and by reliability."""
    model, right = SimpleNamespace(annotators=Annotators()), np.zeros(2)
    for example in map(str, range(EXAMPLES)):
        true, votes = random.integers(labels), []
        for annotator in random.permutation(len(accuracies)).tolist():
            wrong = (true + 1 + random.integers(labels - 1)) % labels
            votes.append((str(annotator), int(true if random.random() < accuracies[annotator] else wrong)))
            model.annotators.vote(example, *votes[-1], 0)
        majority = Counter(label for _, label in votes).most_common(1)[0][0]
        right += majority == true, agreement.combined(model, example, votes) == true
    return right / EXAMPLES


def main():
    heads = [f"{right:g} right, {wrong:g} wrong" for right, wrong in BEGINNINGS]
    print("\n".join(lines(["examples", "labels", *heads], [])))
    for examples in (20, 60, 300):
        for labels in (2, 5):
            far = {begin: [] for begin in BEGINNINGS}
            for seed in range(DRAWS):
                answers, right = answers_of(np.random.default_rng(seed), examples, labels)
                for begin in BEGINNINGS:
                    agreement.RIGHT, agreement.WRONG = begin
                    found = agreement.truths(answers).reliabilities
                    far[begin] += [abs(found[annotator] - share) for annotator, share in right.items()]
            print(line([str(examples), str(labels), *(f"{np.mean(own):.3f}" for own in far.values())]))
    agreement.RIGHT, agreement.WRONG = 8.0, 2.0
    print("\n".join(["", *lines(["right answers", "labels", "majority", "reliability"], [])]))
    for accuracies in CROWDS:
        for labels in (2, 3):
            means = np.mean(
                [combined_labels(np.random.default_rng(seed), accuracies, labels) for seed in range(RUNS)], axis=0
            )
            print(line([", ".join(map(str, accuracies)), str(labels), *(f"{100 * mean:.1f}" for mean in means)]))


if __name__ == "__main__":
    main()
