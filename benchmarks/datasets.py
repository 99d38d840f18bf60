"""The data sets in the folder --data, in the formats that `hinged replay` reads: NAME.npz with X_train, y_train, X_test
and y_test, dense or CSR; or a table, or LIBSVM text, with the test part in NAME_test or NAME.t.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from hinged.readers import ENDINGS, Source, open_source
from hinged.readers.arrays import ArraySource, arrays_of
from hinged.solvers.core.rows import rows_from_csr, rows_from_dense


def load(folder: Path, name: str) -> list:
    """Return X_train, y_train, X_test, y_test. Sparse parts are scipy CSR; a part is None if the set has no split."""
    source, test = _source(folder, name), None
    if source is None:
        sys.exit(f"{folder} has no data set {name}: no {name}.npz, {name}.csv, LIBSVM text {name}, or the like")
    if isinstance(source, ArraySource):
        test = source.held_out
    else:
        test = _source(folder, f"{name}_test", like=source) or _source(folder, f"{name}.t", like=source)
    if test is None:
        return [*arrays_of(source), None, None]
    dim = max(source.dim, test.dim)
    return [*arrays_of(source, dim), *arrays_of(test, dim)]


def _source(folder: Path, name: str, like: Source | None = None) -> Source | None:
    """Return the file of this name in any form. In a table, the labels are the column `y`."""
    for ending in (*ENDINGS, "", ".svm", ".libsvm", ".txt"):
        for packed in ("", ".gz", ".bz2"):
            path = folder / f"{name}{ending}{packed}"
            if path.is_file():
                table = ending in ENDINGS and ENDINGS[ending] != "npz"
                return open_source(path, label="y" if table else None, like=like)
    return None


def rows_of(X, kernel, dtype=np.float32):
    """Return dense or CSR data as the rows that solvers use."""
    if hasattr(X, "indptr"):
        return rows_from_csr(X.indptr, X.indices, X.data, kernel, X.shape[1], dtype)
    return rows_from_dense(X, kernel, X.shape[1], dtype)


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--runs", type=int, default=3, help="runs of the quick programs; medians are printed")
    return parser
