"""Classes that have to say something, looked at where they are listed: one that leaves it open is refused at import."""

from __future__ import annotations

from collections.abc import Sequence


def check_declared(kind: type, what: str, facts: Sequence[str] = ()) -> None:
    """TypeError for a class that lacks an abstract method of its base, or one of the facts, which are attributes.

    what: the kind of class, for the error.
    """
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    missing += [name for name in facts if not hasattr(kind, name)]
    if missing:
        raise TypeError(f"the {what} {kind.__name__} must say what these are: {', '.join(missing)}")
