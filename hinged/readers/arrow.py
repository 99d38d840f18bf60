"""Read Parquet and Arrow files batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import ipc, parquet

from hinged.readers.bad_rows import STOP, BadRows, Place
from hinged.readers.base import ReadError
from hinged.readers.table import Found, Row, TableColumns, TableSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

BATCH_ROWS = 4096


class ArrowSource(TableSource):
    """A Parquet file, or an Arrow file (Feather version 2)."""

    def __init__(
        self,
        path: Path,
        choice: TableColumns,
        *,
        is_parquet: bool,
        like: TableSource | None = None,
        bad_rows: BadRows = STOP,
    ) -> None:
        self.path = path
        self._is_parquet = is_parquet
        try:
            with self._opened() as file:
                header = list((file.schema_arrow if is_parquet else file.schema).names)
        except (OSError, pa.ArrowException) as error:
            raise ReadError(f"cannot read {path}: {error}") from error
        super().__init__(path, header, choice, like, bad_rows)

    def _opened(self) -> Any:
        return parquet.ParquetFile(self.path) if self._is_parquet else ipc.open_file(self.path)

    def _rows(self) -> Iterator[Found]:
        number = 0
        try:
            with self._opened() as file:
                for batch in file.iter_batches(BATCH_ROWS) if self._is_parquet else self._batches(file):
                    for row in batch.to_pylist():
                        number += 1
                        yield Place(self.path, number, "row"), row
        except (OSError, pa.ArrowException) as error:
            raise ReadError(f"cannot read {self.path}: {error}") from error

    @staticmethod
    def _batches(file: Any) -> Iterator[Any]:
        return (file.get_batch(k) for k in range(file.num_record_batches))

    def _count(self, sample: Sequence[Row]) -> int:
        """Return the number of rows that the file states. If the file states no number, count the rows."""
        if not self._is_parquet:
            return super()._count(sample)
        with self._opened() as file:
            return int(file.metadata.num_rows)
