"""What every part of a configuration is."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

AUTO = "auto"
SCALE: Literal["scale"] = "scale"
"""gamma that the warm-up tells; AUTO is the rule of models that were made before there was this one."""


class Part(BaseModel):
    """A part of a configuration: strict, closed, never changing."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
