"""Rows of numbers in the form that a configuration needs: service/data/features/rows.py."""

import json

import numpy as np
import pytest

from hinged.service.data.configuration import new_configuration
from hinged.service.data.features.rows import dense_rows, sparse_rows
from hinged.service.data.inputs import inputs_state, read_inputs
from hinged.service.settings import Settings
from hinged.solvers.core.rows import BadRow

X = np.array([[0.0, 2.5, 0.0, -1e90], [0.0, 0.0, 0.0, 0.0], [7.0, 0.0, 1e-90, 0.0]])
INDPTR, INDICES, VALUES = [0, 3, 3, 5], [3, 0, 1, 2, 0], [-1e90, 0.0, 2.5, 1e-90, 7.0]  # in no order, with a zero


def configured(scale):
    features = {"type": "sparse", "dim": 4, "scale": scale}
    return new_configuration(json.dumps({"kernel": {"type": "rbf"}, "features": features}), Settings())


@pytest.mark.parametrize("integers", [np.int32, np.int64])
def test_scaled_rows_are_kept_as_they_came_in_any_form(integers):
    configuration = configured("auto")
    given = np.array(INDPTR, integers), np.array(INDICES, integers), np.array(VALUES)
    facts, arrays = inputs_state(sparse_rows(*given, configuration))
    _, expected = inputs_state(dense_rows(X, configuration))
    for name, array in arrays.items():
        assert array.dtype == expected[name].dtype, name
        assert np.array_equal(array, expected[name]), name
    assert read_inputs(facts, arrays).values.tolist() == [2.5, -1e90, 7.0, 1e-90]


@pytest.mark.parametrize(
    ("indices", "values", "reason"),
    [
        ([3, 0, 1, 2, 4], VALUES, "row 2: index 4 is outside"),
        ([3, 0, 1, -1, 0], VALUES, "row 2: index -1 is outside"),
        ([3, 3, 1, 2, 0], VALUES, "row 0: index 3 is given twice"),
        (INDICES, [1.0, 1.0, 1.0, 2e100, 1.0], "row 2: feature 2 is 2e\\+100; numbers must be finite and at most 1e"),
        (INDICES, [1.0, np.nan, 1.0, 1.0, 1.0], "row 0: feature 0 is nan; numbers must be finite and at most 1e"),
    ],
)
def test_an_invalid_row_is_refused_with_its_place(indices, values, reason):
    with pytest.raises(BadRow, match=reason):
        sparse_rows(np.array(INDPTR), np.array(indices), np.array(values), configured("auto"))
