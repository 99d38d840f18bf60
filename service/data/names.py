"""Names that models may have, and parts of a configuration that are lists of names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hinged.service.data.problems import refusal

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def distinct_names(part: str, what: str, example: str, most: int) -> Callable[[Any], tuple[str, ...] | None]:
    """Return a function that reads a part as a tuple of at most `most` different names.

    what: the word for the names in messages. example: a name.
    """

    def read(value: Any) -> tuple[str, ...] | None:
        if value is None:
            return None
        names = list(value) if isinstance(value, list | tuple) else None
        if names is None or not all(isinstance(name, str) for name in names):
            raise refusal(part, f'{part} must be a list of {what}, such as ["{example}"]')
        if len(names) > most or len(set(names)) < len(names):
            raise refusal(part, f"{part} must be at most {most} different {what}")
        return tuple(names)

    return read
