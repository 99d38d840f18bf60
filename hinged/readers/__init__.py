"""Streams of labelled examples from users' files: CSV, LIBSVM text and .npz."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hinged.extras import needed
from hinged.readers.base import (
    Example,
    Label,
    ReadError,
    Source,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FORMATS", "Example", "Label", "ReadError", "Source", "open_source"]

FORMATS = ("csv", "libsvm", "npz")


def open_source(
    path: Path,
    *,
    label: str | None = None,
    id_name: str | None = None,
    file_format: str | None = None,
    zero_based: bool = False,
    like: Source | None = None,
) -> Source:
    """Open a file as the format that its name tells: .csv, .npz, and LIBSVM text for all else.

    label       column (CSV) or array (.npz) of the labels; LIBSVM text has them first on each line
    id_name     column or array of the examples' ids
    zero_based  LIBSVM indices count from 0
    like        a source whose columns this one has too, perhaps in another order
    """
    file_format = file_format or _format_of(path)
    # Each reader is imported when it is asked for: only .npz needs numpy.
    if file_format == "csv":
        from hinged.readers.table import CsvSource  # noqa: PLC0415

        columns = like.columns if isinstance(like, CsvSource) else None
        return CsvSource(path, label=label, id_column=id_name, columns=columns)
    if file_format == "npz":
        with needed("solvers", "a .npz file"):
            from hinged.readers.arrays import open_npz  # noqa: PLC0415

        return open_npz(path, label=label, ids=id_name)
    from hinged.readers.libsvm import LibsvmSource  # noqa: PLC0415

    if id_name is not None:
        raise ReadError(f"{path}: LIBSVM text has no ids")
    return LibsvmSource(path, zero_based=zero_based)


def _format_of(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz").removesuffix(".bz2")
    if name.endswith(".csv"):
        return "csv"
    return "npz" if name.endswith(".npz") else "libsvm"
