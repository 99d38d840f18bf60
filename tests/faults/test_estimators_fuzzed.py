import random

import numpy as np
import pytest

from tests.faults.fuzz_estimators import ESTIMATORS, each_part_wrong, live


@pytest.mark.long
def test_a_file_with_any_wrong_part_is_refused_or_is_an_estimator_that_works():
    # Each run has another seed. A failure shows the seed.
    seed, works = random.randrange(10**6), []
    choices = random.Random(seed)
    with np.errstate(all="ignore"):
        for number in choices.sample(range(len(ESTIMATORS)), len(ESTIMATORS) // 2):
            for data, told in each_part_wrong(number + len(ESTIMATORS) * choices.randrange(20), choices):
                try:
                    works.append(live(data, random.Random(seed)))
                except Exception as error:
                    raise AssertionError(f"seed {seed}, {told}") from error
    assert 0 < sum(works) < len(works)
