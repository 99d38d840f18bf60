"""Tuples that compiled code is handed by one pointer."""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba import intp, typeof
from numba.core.errors import NumbaError

from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed


@handed
class Pair(NamedTuple):
    factor: float
    values: np.ndarray
    table: np.ndarray


@in_place
def add_up(pair, begin, end):
    total = 0.0
    for i in range(begin, end):
        total += pair.factor * pair.values[i]
    pair.table[0, 0] += total
    return total


@in_place
def halves(pair):
    factor, values, _ = pair
    middle = values.shape[0] // 2
    return factor + add_up(pair, 0, middle) + add_up(pair, middle, values.shape[0])


@compiled
def values_of(pair):
    return pair.values


@compiled
def made(factor, values, table):
    return halves(Pair(factor, values, table))


@compiled
def same(pair):
    return pair


def pair(n=5):
    return Pair(2.0, np.arange(n, dtype=np.float64), np.zeros((1, 1)))


def test_a_tuple_is_one_argument_of_what_compiled_code_calls():
    add_up.inner.compile((typeof(pair()), intp, intp))  # callers that find `halves` compiled do not need it
    (variant,) = add_up.inner.overloads.values()
    function = variant.library.get_function(variant.fndesc.llvm_func_name)
    *_, tuple_, _, _ = function.arguments  # after the pointers to the result and to an exception
    assert len(list(function.arguments)) == 2 + 3
    assert str(tuple_.type) == "ptr"
    # No write through another pointer changes the tuple, so loops need not read it again.
    assert {b"noalias", b"readonly"} <= set(tuple_.attributes)


def test_its_parts_are_read_by_name_and_by_place_and_its_arrays_written():
    one = pair()
    assert halves(one) == 2.0 + 20.0
    assert one.table[0, 0] == 20.0


def test_references_end_with_the_call_except_to_a_returned_array():
    one = pair(1000)
    held = [sys.getrefcount(each) for each in one]
    halves(one)
    found = values_of(one)
    assert found is one.values
    assert [sys.getrefcount(each) for each in one] == [held[0], held[1] + 1, held[2]]


def test_a_tuple_that_compiled_code_makes_is_handed_on_as_numba_does_it():
    assert made(*pair()) == halves(pair())


def test_compiled_code_that_returns_a_tuple_is_refused():
    with pytest.raises(NumbaError, match="cannot return a Pair"):
        same(pair())
