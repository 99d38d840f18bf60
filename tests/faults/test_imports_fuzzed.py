import random

import pytest

from tests.faults.fuzz_imports import fuzz

pytestmark = pytest.mark.long


def test_files_that_are_damaged_under_right_checksums_are_refused_or_are_models_that_learn_and_are_read_again():
    # Others in each run: what is found tells its number, and `--case` does it again.
    counts, found = fuzz(10, random.randrange(10**6))
    assert found == []
    assert counts["refused"] > 0
    assert counts["accepted"] > 0
