"""The docstrings of the estimators: a class describes what is its own, and the rest is derived."""

from __future__ import annotations

import inspect
import re
import textwrap

from hinged.solvers.catalogue import entry_of
from hinged.solvers.core.parameters import Parameter, declared

PARAMETERS, ATTRIBUTES, EXAMPLES = "Parameters", "Attributes", "Examples"
SECTION = re.compile(r"\n\n([A-Z]\w+(?: [A-Z]\w+)?)\n-+\n")
"""The head of a section of a numpydoc docstring."""
ENTRY = re.compile(r"^(\w+)( : .*)?((?:\n .*)*)", re.MULTILINE)
"""An entry of a section: name, type, and indented description."""
EXAMPLE = """\
>>> from sklearn.datasets import make_moons
>>> from hinged.sklearn import {name}
>>> X, y = make_moons(400, noise=0.2, random_state=0)
>>> model = {name}(random_state=0).fit(X[:300], y[:300])
>>> model.score(X[300:], y[300:]) > 0.9
True"""


def inherit(cls: type) -> None:
    """Complete the docstring of a class.

    A description of a parameter comes from the class, else from its bases, else from the solver; the default comes from
    the class. An estimator of a solver that lists no attributes has those that its bases describe, and all properties
    with a name such as `coef_`. An estimator without an example gets the usual example.
    """
    if not cls.__dict__.get("__doc__"):  # no docstrings with python -OO
        return
    summary, *parts = SECTION.split(inspect.cleandoc(cls.__doc__ or ""))
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    cls._described = sections  # type: ignore[attr-defined]
    solver = getattr(cls, "solver", None)
    whole = {PARAMETERS: "\n".join(_parameters(cls, solver).values())}
    if solver is not None:
        whole |= {ATTRIBUTES: "\n".join(_attributes(cls)), EXAMPLES: EXAMPLE.format(name=cls.__name__)}
    whole |= {title: body for title, body in sections.items() if title != PARAMETERS}
    if EXAMPLES in whole:  # numpydoc's order
        whole[EXAMPLES] = whole.pop(EXAMPLES)
    cls.__doc__ = "\n\n".join([summary, *(f"{title}\n{'-' * len(title)}\n{body}" for title, body in whole.items())])


def _parameters(cls: type, solver: str | None) -> dict[str, str]:
    """Return the entry of each parameter. Bases come first."""
    of_solver = declared(entry_of(solver).make) if solver else {}
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for name, kind, words in ENTRY.findall(base.__dict__.get("_described", {}).get(PARAMETERS, "")):
            if hasattr(cls, name):
                found[name] = f"{name}{kind}, default {getattr(cls, name)!r}{words}"
        for name in inspect.get_annotations(base):
            if name in of_solver:
                found.setdefault(name, _said_by_solver(of_solver[name], getattr(cls, name)))
    return found


def _said_by_solver(parameter: Parameter, default: object) -> str:
    """Return the entry of a parameter in the words of its solver."""
    words = parameter.meaning.replace("null:", "None:")
    told = textwrap.fill(f"{words[0].upper()}{words[1:]}.", 112, initial_indent="    ", subsequent_indent="    ")
    return f"{parameter.name} : {parameter.rule.allowed}, default {default!r}\n{told}"


def _attributes(cls: type) -> list[str]:
    described = [base.__dict__.get("_described", {}).get(ATTRIBUTES) for base in reversed(cls.__mro__)]
    properties = (name for base in reversed(cls.__mro__) for name, each in vars(base).items() if type(each) is property)
    return [*filter(None, described), *(name for name in properties if name[0] != "_" and name[-1] == "_")]
