"""The docstrings of the public estimators: their examples run, and they describe every parameter."""

import doctest
import inspect
import re

import pytest

import hinged.river
import hinged.sklearn

PUBLIC = [getattr(module, name) for module in (hinged.sklearn, hinged.river) for name in module.__all__]
CLASSES = [each for each in PUBLIC if inspect.isclass(each)]


def members(kind):
    """Yield the public methods and properties of a class that this package defines."""
    for name, each in inspect.getmembers(kind):
        function = each.fget if isinstance(each, property) else getattr(each, "fn", each)
        if not name.startswith("_") and getattr(function, "__module__", "").startswith("hinged."):
            yield name, inspect.getdoc(each)


def section(text, title):
    """Return the lines of a section of a numpydoc docstring."""
    head = rf"^{title}\n-+\n"
    return re.split(r"\n\n(?=[A-Z]\w+( \w+)?\n-+\n)", re.split(head, text, flags=re.MULTILINE)[1])[0].split("\n")


@pytest.mark.parametrize("public", PUBLIC, ids=lambda each: each.__name__)
def test_the_examples_give_what_the_docstring_says(public):
    if public is hinged.sklearn.to_onnx:
        pytest.importorskip("onnx")
    (found,) = doctest.DocTestFinder(recurse=False).find(public, public.__name__, globs={})
    assert found.examples
    assert doctest.DocTestRunner().run(found).failed == 0


@pytest.mark.parametrize("Estimator", CLASSES, ids=lambda each: each.__name__)
def test_every_parameter_is_described_with_its_default(Estimator):
    described = [line for line in section(inspect.getdoc(Estimator), "Parameters") if not line.startswith(" ")]
    parameters = inspect.signature(Estimator).parameters.values()
    expected = {f"{each.name}: {each.default!r}" for each in parameters if each.kind is not each.VAR_KEYWORD}
    found = {re.sub(r" : .*, default ", ": ", line) for line in described if not line.startswith("**")}
    assert found == expected


@pytest.mark.parametrize("Estimator", CLASSES, ids=lambda each: each.__name__)
def test_every_public_member_has_a_docstring_that_names_no_file(Estimator):
    for name, text in [(Estimator.__name__, inspect.getdoc(Estimator)), *members(Estimator)]:
        assert text, name
        assert not re.search(r"\w+\.py\b", text), name


def test_a_parameter_has_one_description():
    described = {}
    for Estimator in hinged.sklearn.__all__:
        lines = section(inspect.getdoc(getattr(hinged.sklearn, Estimator)), "Parameters")
        text = "\n".join(lines)
        for name, rest in re.findall(r"^(\w+) : (.*(?:\n .*)*)", text, flags=re.MULTILINE):
            described.setdefault(name, set()).add(re.sub(r", default .*", "", rest))
    several = {name for name, texts in described.items() if len(texts) > 1}
    # C is a bound, a step or a price. HingedClassifier has a server's rules for finish, gamma and random_state. The
    # rest differ in what their papers mean.
    assert several <= {
        "C",
        "budget",
        "class_weight",
        "coef0",
        "degree",
        "delta_max",
        "delta_min",
        "finish",
        "gamma",
        "idle_max",
        "kernel",
        "precision",
        "random_state",
    }
