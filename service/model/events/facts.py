"""An event without arrays."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np

from hinged.frames import encode

Array = np.ndarray[Any, Any]


class Facts:
    """An event without arrays: its fields are its payload."""

    KIND: ClassVar[str]

    def encode(self) -> bytes:
        """The event's payload."""
        return encode(self.KIND, asdict(self), {})  # type: ignore[call-overload]

    @classmethod
    def read(cls, facts: dict[str, Any], _: dict[str, Array]) -> Self:
        """The event of a payload."""
        return cls(**facts)


def sixteens(array: Array) -> list[bytes]:
    """What an array holds, 16 bytes each."""
    data = array.tobytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]
