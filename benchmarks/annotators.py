"""Compare the estimated reliabilities of annotators with the shares of right answers.

    PYTHONPATH=.:benchmarks python benchmarks/annotators.py

Three annotators are right with a probability from 0.55 to 0.98. Two or three of them label each example.
"""

import numpy as np

from hinged.service.commands import agreement

DRAWS = 150
BEGINNINGS = 0.0, 1.0, 2.0, 4.0


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


def main():
    print("| examples | labels | " + " | ".join(f"{begin:g} right answers" for begin in BEGINNINGS) + " |")
    print("|---" * (2 + len(BEGINNINGS)) + "|")
    for examples in (20, 60, 300):
        for labels in (2, 5):
            far = {begin: [] for begin in BEGINNINGS}
            for seed in range(DRAWS):
                answers, right = answers_of(np.random.default_rng(seed), examples, labels)
                for agreement.RIGHT in BEGINNINGS:
                    found = agreement.reliabilities(answers)
                    far[agreement.RIGHT] += [abs(found[annotator] - share) for annotator, share in right.items()]
            print(f"| {examples} | {labels} | " + " | ".join(f"{np.mean(own):.3f}" for own in far.values()) + " |")


if __name__ == "__main__":
    main()
