import math
from collections import Counter, defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from hinged.service.commands import agreement
from hinged.service.commands.agreement import RIGHT, WRONG, combined, kappa, truths
from hinged.service.model.annotators import Annotators


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "a"), ("b", "b"), ("a", "b")],
        [("a", "b"), ("b", "a")],
        [("a", "a"), ("b", "b"), ("c", "c"), ("c", "a"), ("a", "a")],
        [("a", "a"), ("a", "b"), ("a", "a")],
    ],
)
def test_kappa_equals_scikit_learns(pairs):
    assert kappa(pairs) == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)))


@pytest.mark.parametrize("pairs", [[], [("a", "a")], [("a", "a")] * 5])
def test_with_a_single_label_kappa_is_none(pairs):
    assert kappa(pairs) is None


def by_loops(answers, steps):
    """Return the reliabilities after a number of steps, from the formulas of Dawid and Skene in plain loops."""
    labels, of = sorted({label for *_, label in answers}), defaultdict(list)
    for example, annotator, label in answers:
        of[example].append((annotator, label))
    true = {e: {k: sum(label == k for _, label in own) / len(own) for k in labels} for e, own in of.items()}
    for _ in range(steps):
        rate = {}
        for a in {annotator for _, annotator, _ in answers}:
            right = [true[example][label] for example, annotator, label in answers if annotator == a]
            rate[a] = (RIGHT + sum(right)) / (RIGHT + WRONG + len(right))
        for example, own in of.items():
            found = {
                k: math.prod(rate[a] if j == k else (1 - rate[a]) / max(1, len(labels) - 1) for a, j in own)
                for k in labels
            }
            true[example] = {k: value / sum(found.values()) for k, value in found.items()}
    own = defaultdict(list)
    for example, annotator, label in answers:
        own[annotator].append(true[example][label])
    return {annotator: sum(right) / len(right) for annotator, right in own.items()}


@settings(deadline=None, max_examples=40)
@given(votes=st.dictionaries(st.tuples(st.integers(0, 6), st.sampled_from("xyz")), st.sampled_from("abc"), min_size=1),
       steps=st.integers(1, 6))  # fmt: skip
def test_each_step_of_a_reliability_is_that_of_plain_loops(votes, steps):
    answers = [(str(example), annotator, label) for (example, annotator), label in votes.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement, "STEPS_MAX", steps)
        patch.setattr(agreement, "TOLERANCE", 0.0)
        assert truths(answers).reliabilities == pytest.approx(by_loops(answers, steps), abs=1e-9)


def test_reliabilities_are_near_the_share_of_right_answers():
    random, answers, right = np.random.default_rng(3), [], defaultdict(list)
    for example in range(400):
        true = random.integers(4)
        for annotator, accuracy in (("careful", 0.95), ("good", 0.85), ("hasty", 0.7), ("guesses", 0.4)):
            label = true if random.random() < accuracy else (true + 1 + random.integers(3)) % 4
            answers.append((str(example), annotator, str(label)))
            right[annotator].append(label == true)
    assert truths(answers).reliabilities == pytest.approx({name: np.mean(own) for name, own in right.items()}, abs=0.05)


def test_without_shared_answers_there_is_no_reliability():
    assert truths([]).reliabilities == {}


def answered(seed, accuracies, labels, n):
    """Yield the true label of each example, and the answers (annotator, label) in random order."""
    random = np.random.default_rng(seed)
    for _ in range(n):
        true = random.integers(labels)
        wrong = (true + 1 + random.integers(labels - 1, size=len(accuracies))) % labels
        said = np.where(random.random(len(accuracies)) < accuracies, true, wrong).tolist()
        order = random.permutation(len(said)).tolist()
        yield int(true), [(f"a{k}", said[k]) for k in order]


@pytest.mark.parametrize(("accuracies", "better"), [([0.95, 0.6, 0.6], 0.02), ([0.8, 0.8, 0.8], -0.02)])
def test_labels_combined_by_reliability_are_more_often_right_where_annotators_differ(accuracies, better):
    model, majority, found, n = SimpleNamespace(annotators=Annotators()), 0, 0, 300
    for number, (true, votes) in enumerate(answered(5, accuracies, 2, n)):
        for annotator, label in votes:
            model.annotators.vote(f"e{number}", annotator, label, 0)
        majority += Counter(label for _, label in votes).most_common(1)[0][0] == true
        found += combined(model, f"e{number}", votes) == true
    assert (found - majority) / n > better


def test_equal_votes_of_unknown_annotators_give_the_first_label():
    model = SimpleNamespace(annotators=Annotators())
    assert combined(model, "e", [("ann", "b"), ("bob", "a")]) == "b"
    assert combined(model, "e", [("bob", "a"), ("ann", "b")]) == "a"
