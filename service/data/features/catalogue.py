"""Every kind of features: where a kind's class stands in this union, it is known."""

from __future__ import annotations

from inspect import isabstract
from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter

from hinged.service.data.features.base import Features
from hinged.service.data.features.named import NamedFeatures
from hinged.service.data.features.records import RecordX, TextX
from hinged.service.data.features.rows import RowFeatures, XInRows
from hinged.service.data.features.text import TextFeatures

AnyFeatures = RowFeatures | NamedFeatures | TextFeatures
AnyX = XInRows | RecordX | TextX
"""The x of any of them, as the routes' document tells it."""
FeaturesPart = Annotated[AnyFeatures, Field(discriminator="type")]
FEATURES: TypeAdapter[AnyFeatures] = TypeAdapter(FeaturesPart)


def _known(*kinds: Any) -> tuple[type[Features], ...]:
    """TypeError for a class that leaves something open."""
    for kind in kinds:
        missing = sorted(kind.__abstractmethods__) if isabstract(kind) else []
        missing += [name for name in ("X", "ONE") if not hasattr(kind, name)]
        if missing:
            raise TypeError(f"the kind of features {kind.__name__} must say what these are: {', '.join(missing)}")
    return kinds


KINDS = _known(*get_args(AnyFeatures))
