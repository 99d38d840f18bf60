from fuzz_imports import fuzz


def test_files_that_are_damaged_under_right_checksums_are_refused_or_are_models_that_learn_and_are_read_again():
    counts, found = fuzz(40, 20_260)
    assert found == []
    assert counts["refused"] > 0
    assert counts["accepted"] > 0
