import pytest
from sklearn.metrics import cohen_kappa_score

from hinged.service.commands.agreement import kappa


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
