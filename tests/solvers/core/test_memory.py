"""Arrays that begin at a line of the processor's caches."""

import numpy as np
import pytest

from hinged.solvers.core.memory import LINE, aligned_empty, aligned_zeros, whole


@pytest.mark.parametrize("make", [aligned_zeros, aligned_empty])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 5), (2, 0), (1000, 33)])
def test_arrays_begin_at_a_line_and_behave_as_any_other(make, shape, dtype):
    held = [make(shape, dtype) for _ in range(5)]
    for array in held:
        assert array.ctypes.data % LINE == 0 or array.size == 0
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
        array[...] = 1
    assert all((array == 1).all() for array in held)


def test_the_first_rows_lead_to_the_whole_array():
    zeros = aligned_zeros((6, 10))
    assert not zeros.any()
    first = zeros[:2]
    first[:] = 1
    assert whole(first).shape == (6, 10)
    assert np.array_equal(whole(first), zeros)
    whole(first)[5] = 2
    assert (zeros[5] == 2).all()


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 10)),
        np.ones((6, 10))[:2],
        aligned_zeros((6, 10))[1:3],  # not the first rows
        aligned_zeros((6, 10))[:2].copy(),
        aligned_zeros((60,)).reshape(12, 5)[:2, :3],
        aligned_zeros((6, 0))[:2],
        np.zeros(2 * 8 + LINE, np.uint8)[5:21].view(np.float64).reshape(2, 1),
    ],
)
def test_an_array_that_is_not_the_first_rows_is_returned_itself(array):
    assert whole(array) is array
