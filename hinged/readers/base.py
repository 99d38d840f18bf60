"""What every reader gives: a Source that can be read again and again, one Example at a time."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import random
import re
import zlib
from abc import ABC, abstractmethod
from array import array
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Label = int | str | bool

# Python's int() takes more: "1_0", other scripts' digits, and "007", which is a name rather than a number.
INTEGER = re.compile(r"[+-]?[1-9][0-9]{0,17}|0")


# The beginning that tells one file from another of the same name, and the characters of each that make an id.
FINGERPRINT_BYTES = 4096
NAME_CHARS_MAX = 60


class ReadError(ValueError):
    """The file is not what it should be; the message names the place."""


class Example(NamedTuple):
    """One row of a file.

    row  1 for the first
    x    a list of numbers, {"indices": ..., "values": ...} counted from 0, an object of names and values, or a text
    y    None where the file has no labels
    id   what the file calls it, None if it has no name
    show what a person is shown in the place of x, None where that is x
    """

    row: int
    x: Any
    y: Label | None
    id: str | None
    show: Any = None


class Source(ABC):
    """The examples of one file; iterating reads it from its beginning."""

    name: str
    sparse: bool
    named: bool = False  # x is an object of names and values, or a text; dim counts the names
    dim: int
    notes: Sequence[str] = ()  # what whoever reads it should know
    # An estimate where counting would mean parsing; it only moves a progress bar.
    rows: int

    @property
    def features(self) -> dict[str, Any]:
        """The features as a model's configuration states them."""
        return {"type": "sparse" if self.sparse else "dense", "dim": self.dim}

    @property
    def held_out(self) -> Source | None:
        """The test part that came with this source."""
        return None

    @abstractmethod
    def __iter__(self) -> Iterator[Example]: ...

    def shuffled(self, seed: int) -> Iterator[Example]:
        """The examples in a random order that the seed fixes. Holds them all, eight bytes a number."""
        examples = [example if self.named else example._replace(x=_compact(example.x)) for example in self]
        random.Random(seed).shuffle(examples)  # noqa: S311 - an order, no secret
        return iter(examples)


def _compact(x: Any) -> Any:
    if isinstance(x, dict):
        return {"indices": array("q", x["indices"]), "values": array("d", x["values"])}
    return array("d", x)


def label_of(text: str) -> Label:
    """The label that a text stands for: an integer stays one, all else is a string."""
    return int(text) if INTEGER.fullmatch(text) else text


def number_of(text: str) -> float | None:
    """The finite number that a text stands for, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    # float() reads "1_0" as ten; nan and inf are no coordinates; x - x is 0 for finite numbers only.
    return value if value - value == 0.0 and "_" not in text else None


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacking .gz and .bz2; what is broken about it raises ReadError."""
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix.lower(), open)
    try:
        with opener(path, "rb") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ReadError(f"{path} is no UTF-8 text: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ReadError(f"cannot read {path}: {reason}") from error


def fingerprint(path: Path) -> str:
    """What an example's id begins with: name and beginning of its file, the same in each run."""
    with open_bytes(path) as file:
        digest = hashlib.blake2b(file.read(FINGERPRINT_BYTES), digest_size=4).hexdigest()
    return f"{path.name[:NAME_CHARS_MAX]}-{digest}"
