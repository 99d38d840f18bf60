"""The interface of all readers: a Source, which can be read repeatedly, one Example at a time."""

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

# Python's int() accepts too much: "1_0", digits of other scripts, and "007", which is rather a name.
INTEGER = re.compile(r"[+-]?[1-9][0-9]{0,17}|0")


# Number of bytes at the beginning of a file that are hashed for its ids, number of characters of the hash, and of the
# name.
FINGERPRINT_BYTES = 4096
NAME_CHARS_MAX = 60
LISTED_MAX = 20  # number of columns that a message names


class ReadError(ValueError):
    """The file is invalid. The message names the place of the problem."""


class Example(NamedTuple):
    """One row of a file.

    Attributes
    ----------
    row : number of the row; the first is 1.
    x : list of numbers, {"indices": ..., "values": ...} counted from 0, object of names and values, or text.
    y : label, None if the file has no labels.
    id : id in the file, None if the file has no ids.
    show : value that people see instead of x, None for x itself.
    weight : the row's own factor of C, None if the file has no weights.
    """

    row: int
    x: Any
    y: Label | None
    id: str | None
    show: Any = None
    weight: float | None = None


class Source(ABC):
    """The examples of one file. Each iteration reads the file from its beginning."""

    name: str
    sparse: bool
    named: bool = False  # whether x is an object of names and values, or a text; if so, dim is the number of names
    dim: int
    notes: Sequence[str] = ()  # sentences that the user of the file should see
    held_out: Source | None = None  # the test part of this source
    # An estimate if an exact count would need parsing. Only a progress bar uses this number.
    rows: int

    @property
    def features(self) -> dict[str, Any]:
        """Return the features part of a model's configuration."""
        return {"type": "sparse" if self.sparse else "dense", "dim": self.dim}

    @abstractmethod
    def __iter__(self) -> Iterator[Example]: ...

    def shuffled(self, seed: int) -> Iterator[Example]:
        """Return the examples in a random order that the seed determines. All examples are held in memory, with eight
        bytes per number.
        """
        examples = [example if self.named else example._replace(x=_compact(example.x)) for example in self]
        random.Random(seed).shuffle(examples)  # noqa: S311 - only an order, not a secret
        return iter(examples)


def _compact(x: Any) -> Any:
    if isinstance(x, dict):
        return {"indices": array("q", x["indices"]), "values": array("d", x["values"])}
    return array("d", x)


def label_of(text: str) -> Label:
    """Return the label that a text represents: an integer if the text is written like an integer, otherwise the
    string.
    """
    return int(text) if INTEGER.fullmatch(text) else text


def number_of(text: str) -> float | None:
    """Return the finite number that a text represents, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    # float() reads "1_0" as ten. nan and inf are not coordinates; x - x is 0 only for finite numbers.
    return value if value - value == 0.0 and "_" not in text else None


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, and decompress .gz and .bz2. Raise ReadError if the file cannot be read."""
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix.lower(), open)
    try:
        with opener(path, "rb") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ReadError(f"{path} is not UTF-8 text: {error}; save it as UTF-8 (iconv -f latin1 -t utf-8)") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ReadError(f"cannot read {path}: {reason}") from error


def fingerprint(path: Path) -> str:
    """Return the prefix of the ids of a file: its name and a hash of its beginning. The prefix is the same in each
    run.
    """
    with open_bytes(path) as file:
        digest = hashlib.blake2b(file.read(FINGERPRINT_BYTES), digest_size=4).hexdigest()
    return f"{path.name[:NAME_CHARS_MAX]}-{digest}"


def columns_named(names: Sequence[str]) -> str:
    """Return the names of columns, as the subject of a message."""
    return f"{'column' if len(names) == 1 else 'columns'} {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """Return a list of names, for a message."""
    shown = ", ".join(repr(name) for name in names[:LISTED_MAX])
    return shown if len(names) <= LISTED_MAX else f"{shown} and {len(names) - LISTED_MAX} more"
