"""Check declared classes at import. A class with a missing declaration is refused."""

from __future__ import annotations

from collections.abc import Sequence


def check_declared(kind: type, what: str, facts: Sequence[str] = ()) -> None:
    """Raise TypeError for a class that lacks an abstract method of its base class, or a required attribute.

    what: the name of this sort of class, which the error contains.
    facts: the names of the required attributes.
    """
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    missing += [name for name in facts if not hasattr(kind, name)]
    if missing:
        raise TypeError(f"the {what} {kind.__name__} must declare: {', '.join(missing)}")
