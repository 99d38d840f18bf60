import random

import pytest

from tests.faults.fuzz_imports import fuzz


@pytest.mark.long
def test_files_damaged_under_valid_checksums_are_refused_or_become_models_that_learn_and_are_read_again():
    # Each run has other cases. A failure shows the number of its case, which `--case` runs again.
    counts, found = fuzz(10, random.randrange(10**6))
    assert found == []
    assert counts["refused"] > 0
    assert counts["accepted"] > 0
