"""The contributions of several arms to their mean, compared with a plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.solvers.core.reports import Contributions
from hinged.solvers.race.mean import joined

KEYS = st.lists(st.integers(0, 12), unique=True, max_size=8)


@given(arms=st.lists(st.tuples(KEYS, st.floats(0.05, 20.0)), min_size=1, max_size=4), columns=st.sampled_from([1, 3]))
def test_a_point_of_several_arms_stands_once_with_the_mean_of_its_contributions(arms, columns):
    random, found, expected = np.random.default_rng(0), [], {}
    shares = [share for _, share in arms]
    for keys, share in arms:
        held, parts = np.array(keys, np.int64), random.normal(size=(columns, len(keys)))
        found.append(Contributions(held, held % 2 == 0, held % 3, parts))
        for key, part in zip(keys, parts.T, strict=True):
            expected[key] = expected.get(key, 0.0) + share / sum(shares) * part
    merged = joined(found, shares)
    assert merged.keys.tolist() == sorted(expected)
    assert merged.merged.tolist() == [key % 2 == 0 for key in merged.keys]
    assert merged.classes.tolist() == [key % 3 for key in merged.keys]
    assert merged.parts.shape == (columns, len(expected))
    for part, key in zip(merged.parts.T, merged.keys.tolist(), strict=True):
        assert part == pytest.approx(expected[key])
