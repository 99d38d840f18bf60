"""The base of every part of a configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

AUTO = "auto"
SCALE: Literal["scale"] = "scale"
"""The gamma that the warm-up determines. AUTO is the rule of models that were made before "scale" existed."""


class Part(BaseModel):
    """A part of a configuration: strict types, no unknown fields, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
