"""A parameter is declared only once, at its solver. The model, the solver and the estimator accept and refuse the same
values.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hinged.service.data.parameters import CONFIGURATION_OF
from hinged.service.data.parts import Part
from hinged.solvers.catalogue import SOLVERS, make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.estimators.loading import CLASSIFIERS

DECLARED = [(name, each) for name, entry in SOLVERS.items() for each in entry.parameters.values()]
ESTIMATORS = [*CLASSIFIERS.values()]
ESTIMATOR_OF = {estimator.solver: estimator for estimator in ESTIMATORS}
EDGES = [0, 1, 2, 1_000, 10_000, 2**24, 2**30, 2**31, 2**53, 0.01, 1e3, 1e6, 1e15]
VALUES = st.one_of(
    st.sampled_from([None, True, "1", "merge", "table", float("nan"), float("inf"), -1e6]),
    st.sampled_from([sign * edge + step for edge in EDGES for sign in (1, -1) for step in (-1, 0, 1)]),
    st.integers(),
    st.floats(),
)


def is_read(parameter, value):
    try:
        TypeAdapter(parameter.annotation, config=Part.model_config).validate_python(value)
    except ValidationError:
        return False
    return True


@given(st.data())
def test_a_model_and_a_solver_take_the_same_values(data):
    _, parameter = data.draw(st.sampled_from(DECLARED))
    value = data.draw(VALUES)
    assert is_read(parameter, value) == parameter.rule.fits(value)


@pytest.mark.parametrize(("name", "parameter"), DECLARED, ids=lambda each: getattr(each, "name", each))
def test_each_parameter_is_declared_once_with_its_meaning_and_default(name, parameter):
    field = CONFIGURATION_OF[name].model_fields[parameter.name]
    assert (field.default, field.description) == (parameter.default, parameter.meaning)
    assert parameter.meaning
    assert parameter.rule.fits(parameter.default)
    with pytest.raises(ValueError, match=f"^{parameter.name} must be .*, got <object"):
        make_solver(name, make_kernel("rbf", 1.0), 2, **{parameter.name: object()})
    if name in ESTIMATOR_OF and name != "bsgd":  # its estimator determines `examples` itself
        assert ESTIMATOR_OF[name].rules[parameter.name].allowed.startswith(parameter.rule.allowed)
        assert getattr(ESTIMATOR_OF[name](), parameter.name) == parameter.default
