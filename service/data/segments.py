"""The part `segments` of a configuration: the named features by whose values the figures are also kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from hinged.service.data.names import distinct_names

FEATURES_MAX = 4  # maximum number of features: each multiplies what the model's figures list

SegmentsPart = Annotated[
    tuple[str, ...] | None, BeforeValidator(distinct_names("segments", "names in x", "country", FEATURES_MAX))
]
