"""Reads the data sets of a folder given by --data: NAME.npz with X_train, y_train, X_test, y_test, dense or CSR."""

import argparse
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from hinged.solvers.core.rows import rows_from_csr, rows_from_dense


def load(folder: Path, name: str) -> list:
    """X_train, y_train, X_test, y_test; sparse parts as scipy CSR, None where the set has no split."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as z:
        parts = []
        for part in ("train", "test"):
            if f"y_{part}" not in z:
                parts += [None, None]
                continue
            if f"X_{part}" in z:
                X = z[f"X_{part}"]
            else:
                X = csr_matrix(
                    tuple(z[f"X_{part}_{array}"] for array in ("data", "indices", "indptr")),
                    shape=tuple(z[f"X_{part}_shape"]),
                )
            parts += [X, z[f"y_{part}"]]
    return parts


def rows_of(X, kernel, dtype=np.float32):
    """Dense or CSR data as the solvers take it."""
    if hasattr(X, "indptr"):
        return rows_from_csr(X.indptr, X.indices, X.data, kernel, X.shape[1], dtype)
    return rows_from_dense(X, kernel, X.shape[1], dtype)


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--runs", type=int, default=3, help="runs of the quick programs; medians are printed")
    return parser
