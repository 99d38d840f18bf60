"""The part `segments` of a configuration: the named features by whose values the figures are also kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from hinged.service.data.features.records import NAME_CHARS_MAX
from hinged.service.data.names import distinct_names

FEATURES_MAX = 4  # maximum number of features: each multiplies what the model's figures list

SegmentsPart = Annotated[
    tuple[Annotated[str, Field(max_length=NAME_CHARS_MAX)], ...] | None,
    BeforeValidator(distinct_names("segments", "names in x", "country", FEATURES_MAX)),
]
