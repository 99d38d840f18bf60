import contextlib

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, ParameterGrid

import hinged.sklearn
from hinged.solvers.core.parameters import check
from hinged.solvers.estimators.loading import CLASSIFIERS

ESTIMATORS = [*CLASSIFIERS.values()]
X, y = make_blobs(60, centers=2, random_state=0)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_every_parameter_is_checked_before_anything_is_computed(Estimator):
    for name in Estimator().get_params():
        model = Estimator(**{name: object()})
        for learn in (model.fit, lambda X, y, model=model: model.partial_fit(X, y, classes=[0, 1])):
            with pytest.raises(ValueError, match=rf"^{name} must be .*, got <object object"):
                learn(None, None)
        assert not hasattr(model, "classes_")


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_text_is_not_accepted_as_a_number(Estimator):
    parameters = Estimator().get_params()
    numbers = [n for n in parameters if isinstance(parameters[n], int | float) and not isinstance(parameters[n], bool)]
    for name in numbers:
        with pytest.raises(ValueError, match=rf"^{name} must be .*, got '1'"):
            Estimator(**{name: "1"}).fit(X, y)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_every_default_is_allowed(Estimator):
    parameters = Estimator().get_params()
    assert parameters.keys() <= Estimator.rules.keys()
    check(parameters, Estimator.rules)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_huge_number_is_refused_or_works(Estimator):
    parameters = Estimator().get_params()
    numbers = [n for n in parameters if isinstance(parameters[n], int | float) and not isinstance(parameters[n], bool)]
    for name in {*numbers, *(parameters.keys() & {"points_max", "step_max", "regularization", "rank", "examples"})}:
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            Estimator(**{name: 10**400}).fit(X, y)
        with contextlib.suppress(ValueError):
            Estimator(**{name: 2**65}).fit(X, y).predict(X)


def test_scalars_of_NumPy_are_numbers_and_names():
    grid = {"C": np.logspace(-1, 1, 2), "kernel": np.array(["linear", "rbf"]), "idle_max": np.array([10, 20])}
    for parameters in ParameterGrid(grid):
        hinged.sklearn.LASVMClassifier(**parameters).fit(X, y)


def test_a_grid_with_text_for_a_number_says_so_at_its_first_fit():
    search = GridSearchCV(hinged.sklearn.LASVMClassifier(), {"C": ["1", "10"]}, cv=2, error_score="raise")
    with pytest.raises(ValueError, match=r"C must be a number > 0 and < 1e.15 or 'auto', got '1'"):
        search.fit(X, y)


@pytest.mark.parametrize("name", [name for name in hinged.sklearn.__all__ if name.endswith("Classifier")])
def test_an_unknown_parameter_is_refused_in_the_name_of_the_estimator(name):
    with pytest.raises(TypeError, match=rf"^{name}\.__init__\(\) got an unexpected keyword argument 'wrong'"):
        getattr(hinged.sklearn, name)(wrong=1)
