"""Learned examples as a data frame of pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from hinged.answers import ListedExample

COLUMNS = ("id", "label", "prediction", "source", "answers", "corrected", "at", "weight")
SPARSE = {"indices", "values"}


def frame_of(examples: Sequence[ListedExample]) -> pd.DataFrame:
    """Return one row per example. A list or an object x has a column for each part: `x.0`, or `x.` and the name. A
    text, and an x of indices and values, is one column `x`. An x that the server no longer has is missing.
    """
    # Objects, because a column of whole numbers with a None would become floats.
    frame = pd.DataFrame([dict(example) for example in examples], columns=list(COLUMNS), dtype=object)
    frame["at"] = pd.to_datetime(frame["at"], utc=True, format="ISO8601")
    frame = frame.astype({"corrected": bool, "weight": float})
    xs = [example["x"] for example in examples]
    if any(_is_whole(x) for x in xs):
        return frame.assign(x=pd.Series(xs, dtype=object))
    parts = pd.DataFrame([x if isinstance(x, Mapping) else dict(enumerate(x or ())) for x in xs], frame.index)
    return frame.join(parts.add_prefix("x."))


def _is_whole(x: Any) -> bool:
    """Return whether x has no columns of its own."""
    return isinstance(x, str) or (isinstance(x, Mapping) and x.keys() == SPARSE)
