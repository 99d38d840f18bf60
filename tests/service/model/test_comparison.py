import numpy as np
import pytest

from hinged.service.model.comparison import compared
from hinged.service.model.decisions.memory import DecisionMemory
from hinged.service.model.metrics import STREAMED, UNKNOWN, WINDOW, Prequential


def judged(right, batch=97):
    """Return the metrics of predictions that are right or wrong as given; None is no prediction."""
    metrics = Prequential()
    for _ in range(2):
        metrics.add_class()
    truth = (np.arange(len(right)) % 3 == 0).astype(np.int32)
    numbers = np.array(
        [UNKNOWN if r is None else t if r else 1 - t for r, t in zip(right, truth, strict=True)], np.int32
    )
    columns, sources = (2.0 * numbers - 1)[:, None], np.full(len(right), STREAMED, np.uint8)
    for k in range(0, len(right), batch):
        metrics.add(*(part[k : k + batch] for part in (columns, numbers, truth, sources)))
    return metrics


@pytest.mark.parametrize("n", [1, 30, WINDOW, WINDOW + 1, 2 * WINDOW + 311])
@pytest.mark.parametrize("late", [0, 20])
def test_the_newest_predictions_of_both_are_compared_one_by_one(n, late):
    random = np.random.default_rng(n)
    champion = random.random(n) < 0.7
    challenger = np.where(random.random(n) < 0.2, random.random(n) < 0.9, champion)
    begun = [None] * min(late, n - 1) + challenger[min(late, n - 1) :].tolist()
    found = compared(judged(begun), judged(champion.tolist()))
    kept = min(WINDOW, n - min(late, n - 1))
    mine, other = challenger[-kept:].tolist(), champion[-kept:].tolist()
    assert found["examples"] == kept
    assert found["challenger"] == pytest.approx(sum(mine) / kept)
    assert found["champion"] == pytest.approx(sum(other) / kept)
    low, high = found["interval"]
    assert -1 <= low < high <= 1
    mirrored = compared(judged(champion.tolist()), judged(begun))
    assert mirrored["interval"] == pytest.approx([-high, -low])


def test_there_is_nothing_to_compare_before_both_have_predicted():
    assert compared(judged([]), judged([True])) is None
    assert compared(judged([None, None]), judged([True, False])) is None


def test_balanced_accuracies_count_each_class_the_same():
    """The champion is right in the usual class, and the challenger in the rare class, every third example."""
    rare = np.arange(300) % 3 == 0
    found = compared(judged(rare.tolist()), judged((~rare).tolist()), balanced=True)
    assert (found["figure"], found["challenger"], found["champion"]) == ("balanced_accuracy", 0.5, 0.5)
    assert found["interval"][0] < 0 < found["interval"][1]
    assert compared(judged(rare.tolist()), judged((~rare).tolist()))["interval"][1] < 0
    one = compared(judged([True] * 300), judged((~rare).tolist()), balanced=True)
    assert one["interval"][0] > 0.4


COSTS = {"b": {"a": 9.0}, "ask": 0.4}


def deciding(scores, truth, costs=COSTS, batch=97):
    """Return the metrics of decision values of two classes."""
    metrics = Prequential()
    metrics.memory = DecisionMemory(("b",), costs)
    for name in "ab":
        metrics.add_class(name)
    for k in range(0, len(scores), batch):
        columns, classes = scores[k : k + batch, None], truth[k : k + batch].astype(np.int32)
        numbers = (columns[:, 0] > 0).astype(np.int32)
        metrics.add(columns, numbers, classes, np.full(len(classes), STREAMED, np.uint8))
    return metrics


@pytest.mark.parametrize("n", [60, WINDOW + 211])
def test_with_costs_the_costs_of_decisions_are_compared(n):
    random = np.random.default_rng(n)
    truth = random.random(n) < 0.1
    sharp, dull = (np.where(truth, 1.0, -1.0) + noise * random.normal(size=n) for noise in (0.5, 3.0))
    learners = [deciding(scores, truth) for scores in (sharp, dull)]
    found = compared(*learners)
    kept, means = min(n, WINDOW), []
    for metrics, scores in zip(learners, (sharp, dull), strict=True):
        paid = []
        for score, positive in zip(scores[-kept:], truth[-kept:], strict=True):
            chance = metrics.memory.chances().of(np.array([[np.float64(np.float32(score))]]), np.zeros((1, 2)))[0, 1]
            rules = {"a": 9.0 * chance, "b": 1 - chance, "ask": 0.4}
            decision = min(rules, key=rules.get)
            paid.append(0.4 if decision == "ask" else (9.0 * positive if decision == "a" else 1.0 * (not positive)))
        means.append(paid)
    assert (found["figure"], found["examples"]) == ("cost", kept)
    assert [found["challenger"], found["champion"]] == pytest.approx([np.mean(paid) for paid in means])
    saved = np.subtract(*means[::-1])
    reach = 1.96 * saved.std(ddof=1) / np.sqrt(kept)
    assert found["interval"] == pytest.approx([saved.mean() - reach, saved.mean() + reach])
    assert compared(learners[0], learners[0])["interval"] == [0.0, 0.0]


def test_costs_that_only_the_champion_has_are_the_costs_of_both():
    truth = np.arange(200) % 4 == 0
    scores = np.where(truth, 0.5, -0.5) + np.random.default_rng(1).normal(size=200)
    other = {**COSTS, "ask": 100.0}
    assert compared(deciding(scores, truth, other), deciding(scores, truth))["challenger"] <= 0.4
    plain = deciding(scores, truth)
    plain.memory = None
    assert compared(plain, deciding(scores, truth)) is None


def intervals(gain, loss, n, runs=600):
    """Return the intervals of simulated pairs. gain, loss: how often only the challenger or the champion is right."""
    random = np.random.default_rng(7)
    for _ in range(runs):
        u = random.random(n)
        champion = (u < loss) | (u > 0.3)  # both are right above 0.3
        yield compared(judged((u > 1 - 0.7 - gain).tolist(), n), judged(champion.tolist(), n))["interval"]


@pytest.mark.long
@pytest.mark.parametrize(("gain", "loss", "n"), [(0.02, 0.02, 300), (0.1, 0.05, 100), (0.03, 0.0, 400), (0.2, 0.1, 50)])
def test_the_interval_holds_the_true_difference_as_often_as_it_says(gain, loss, n):
    held = [low <= gain - loss <= high for low, high in intervals(gain, loss, n)]
    assert 0.93 <= np.mean(held) <= 0.99


def test_equal_answers_need_few_others_to_tell_both_apart():
    """Of 1,000 examples, 30 are predicted otherwise. Two independent samples could not tell .90 and .92 apart."""
    champion = [True] * 895 + [False] * 80 + [True] * 5 + [False] * 20
    challenger = [True] * 895 + [False] * 80 + [False] * 5 + [True] * 20
    found = compared(judged(challenger), judged(champion))
    assert 0 < found["interval"][0] < 0.015 < found["interval"][1] < 0.03
