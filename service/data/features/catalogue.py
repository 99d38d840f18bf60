"""Every kind of features: where a kind's class stands in this union, it is known."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter

from hinged.service.data.declared import check_declared
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
        check_declared(kind, "kind of features", ("X", "ONE"))
    return kinds


KINDS = _known(*get_args(AnyFeatures))
