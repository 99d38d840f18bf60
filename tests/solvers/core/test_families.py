"""The family of a kernel (solvers/core/families.py) is the only place that describes the kernel."""

import json

import pytest

from hinged.commands.lifecycle import create
from hinged.service.data.configuration import new_configuration, read_configuration
from hinged.service.settings import Settings
from hinged.solvers.core.families import KERNELS
from hinged.solvers.core.kernels import is_radial, make_kernel
from hinged.solvers.estimators.files import kernel_facts, kernel_of
from hinged.solvers.estimators.parameters import RULES


def configured(kernel):
    body = {"solver": "lasvm", "kernel": kernel, "features": {"type": "dense", "dim": 3}}
    return new_configuration(json.dumps(body), Settings())


def test_the_codes_of_kernels_in_files_never_change():
    codes = {"linear": 0, "polynomial": 1, "rbf": 2, "laplacian": 3}
    assert {name: family.code for name, family in KERNELS.items() if name in codes} == codes


@pytest.mark.parametrize("name", KERNELS)
def test_a_family_is_a_part_of_configurations_a_rule_of_estimators_and_a_choice_of_the_command(name):
    family = KERNELS[name]
    configuration = configured({"type": name})
    assert configuration.kernel.type == name
    said = {key: value for key, value in configuration.kernel.model_dump().items() if key != "type"}
    assert said.keys() == family.parameters.keys()
    assert read_configuration(configuration.model_dump(mode="json")) == configuration
    assert RULES["kernel"].fits(name)
    assert name in next(option for option in create.params if option.name == "kernel").type.choices


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_survives_a_file_with_the_parameters_of_its_family(name):
    given = {"gamma": 0.25, "degree": 2, "coef0": 1.5}
    kernel = make_kernel(name, **{key: given[key] for key in KERNELS[name].parameters})
    facts = kernel_facts(kernel)
    assert facts == {"type": name, **{key: given[key] for key in KERNELS[name].parameters}}
    assert kernel_of(facts) == kernel == configured(facts).kernel.build()
    assert is_radial(kernel) == (KERNELS[name].distance is not None)
