"""All kinds of features: a kind exists if its class is in this union."""

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
"""The x of any kind, for the OpenAPI document."""
FeaturesPart = Annotated[AnyFeatures, Field(discriminator="type")]
FEATURES: TypeAdapter[AnyFeatures] = TypeAdapter(FeaturesPart)


def _known(*kinds: Any) -> tuple[type[Features], ...]:
    """Return the kinds. TypeError for a class that leaves something undefined."""
    for kind in kinds:
        check_declared(kind, "kind of features", ("X", "ONE"))
    return kinds


KINDS = _known(*get_args(AnyFeatures))
