"""The docstrings of the estimators: a class describes its own parameters, and inherits all other descriptions."""

from __future__ import annotations

import inspect
import re

PARAMETERS, ATTRIBUTES = "Parameters", "Attributes"
SECTION = re.compile(r"\n\n([A-Z]\w+(?: [A-Z]\w+)?)\n-+\n")
"""The head of a section of a numpydoc docstring."""
ENTRY = re.compile(r"^(\w+)( : .*)?((?:\n .*)*)", re.MULTILINE)
"""An entry of a section: name, type, and indented description."""


def inherit(cls: type) -> None:
    """Complete the docstring of a class with the parameters and attributes that its bases describe.

    A class describes a parameter if it declares it, or if the parameter means something else than in its bases. The
    default comes from the class. A class that has a section of attributes describes all of its attributes.
    """
    if not cls.__dict__.get("__doc__"):  # no docstrings with python -OO
        return
    summary, *parts = SECTION.split(inspect.cleandoc(cls.__doc__ or ""))
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    cls._described = sections  # type: ignore[attr-defined]
    described = [base.__dict__.get("_described", {}) for base in reversed(cls.__mro__)]
    parameters: dict[str, str] = {}
    for each in described:
        for name, kind, words in ENTRY.findall(each.get(PARAMETERS, "")):
            parameters[name] = f"{name}{kind}, default {getattr(cls, name, None)!r}{words}"
    attributes = [each[ATTRIBUTES] for each in described if ATTRIBUTES in each]
    whole = {PARAMETERS: "\n".join(parameters.values())}
    if attributes:
        whole[ATTRIBUTES] = attributes[-1]
    whole |= {title: body for title, body in sections.items() if title not in (PARAMETERS, ATTRIBUTES)}
    cls.__doc__ = "\n\n".join([summary, *(f"{title}\n{'-' * len(title)}\n{body}" for title, body in whole.items())])
