"""Checks of declared classes at import: a class that leaves something undeclared is refused."""

from __future__ import annotations

from collections.abc import Sequence


def check_declared(kind: type, what: str, facts: Sequence[str] = ()) -> None:
    """Raise TypeError for a class that lacks an abstract method of its base, or a required attribute.

    what: the kind of class, for the error.
    facts: the required attributes.
    """
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    missing += [name for name in facts if not hasattr(kind, name)]
    if missing:
        raise TypeError(f"the {what} {kind.__name__} must declare: {', '.join(missing)}")
