"""All kinds of columns: a kind exists if its class is in this list."""

from __future__ import annotations

from collections.abc import Mapping

from hinged.service.data.declared import check_declared
from hinged.service.data.features.columns.base import ColumnKind, Measure, Value
from hinged.service.data.features.columns.categories import Categories, Identifiers
from hinged.service.data.features.columns.moments import Moments
from hinged.service.data.features.columns.texts import Texts


def _known(*kinds: type[ColumnKind]) -> dict[str, type[ColumnKind]]:
    """Return the kinds by name. TypeError for a class that leaves something undefined, or shares a name or aspect."""
    found: dict[str, type[ColumnKind]] = {}
    aspects: set[Value] = set()
    for kind in kinds:
        check_declared(kind, "kind of column", ("NAME", "MEANING", "EXAMPLE", "SQUARE_MAX"))
        if kind.NAME in found or aspects & kind.ASPECTS.keys():
            raise TypeError(f"the kind of column {kind.__name__} has the name or an aspect of another kind")
        found[kind.NAME] = kind
        aspects |= kind.ASPECTS.keys()
    return found


KINDS: Mapping[str, type[ColumnKind]] = _known(Categories, Moments, Identifiers, Texts)
"""The kinds, in the order in which the warm-up offers them names."""

DECLARED = tuple(name for name, kind in KINDS.items() if kind.DECLARED)
"""The kinds that a configuration may declare."""

MEASURES: Mapping[Value, Measure] = {
    None: Measure(standardised=True),
    **{aspect: measure for kind in KINDS.values() for aspect, measure in kind.ASPECTS.items()},
}
"""Measures of the columns that are neither strings nor booleans."""
ONE = Measure(standardised=False)
"""The measure of a string or a boolean: 1 if the record has it."""
