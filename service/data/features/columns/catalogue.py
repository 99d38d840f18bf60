"""Every kind of column: where a kind's class stands in this list, it is known."""

from __future__ import annotations

from collections.abc import Mapping

from hinged.service.data.declared import check_declared
from hinged.service.data.features.columns.base import ColumnKind, Measure, Value
from hinged.service.data.features.columns.categories import Categories, Identifiers
from hinged.service.data.features.columns.moments import Moments
from hinged.service.data.features.columns.texts import Texts


def _known(*kinds: type[ColumnKind]) -> dict[str, type[ColumnKind]]:
    """The kinds by name. TypeError for a class that leaves something open, and for what two of them have."""
    found: dict[str, type[ColumnKind]] = {}
    aspects: set[Value] = set()
    for kind in kinds:
        check_declared(kind, "kind of column", ("NAME", "MEANING", "EXAMPLE", "SQUARE_MAX"))
        if kind.NAME in found or aspects & kind.ASPECTS.keys():
            raise TypeError(f"the kind of column {kind.__name__} has a name or an aspect that another has")
        found[kind.NAME] = kind
        aspects |= kind.ASPECTS.keys()
    return found


KINDS: Mapping[str, type[ColumnKind]] = _known(Categories, Moments, Identifiers, Texts)
"""In the order in which the warm-up asks them for the names that are theirs."""

DECLARED = tuple(name for name, kind in KINDS.items() if kind.DECLARED)
"""Those that a configuration may name."""

MEASURES: Mapping[Value, Measure] = {
    None: Measure(standardised=True),
    **{aspect: measure for kind in KINDS.values() for aspect, measure in kind.ASPECTS.items()},
}
"""Of the columns that are neither strings nor booleans."""
ONE = Measure(standardised=False)
"""Of a string or a boolean: 1 where it stands."""
