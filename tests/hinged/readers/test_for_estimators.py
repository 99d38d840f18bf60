"""Whole files as arrays, for the estimators and for the benchmarks."""

import numpy as np
import pytest

from benchmarks.datasets import load
from hinged.readers import ReadError, open_source
from hinged.readers.arrays import arrays_of
from hinged.sklearn import LASVMClassifier

ROWS = [([1.5, 0.0, 2.0], 1), ([0.0, 0.0, 0.0], -1), ([0.0, 3.0, 0.5], 1)]
X = np.array([row for row, _ in ROWS])
Y = [label for _, label in ROWS]


def as_csv(rows):
    return "a,b,c,y\n" + "".join(",".join(map(str, [*row, label])) + "\n" for row, label in rows)


def as_libsvm(rows):
    entries = ([f"{k}:{v}" for k, v in enumerate(row, start=1) if v] for row, _ in rows)
    return "".join(f"{label:+d} {' '.join(row)}\n" for row, (_, label) in zip(entries, rows, strict=True))


@pytest.mark.parametrize("kind", ["csv", "libsvm", "npz"])
def test_estimators_get_the_same_rows_from_each_file_format(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "npz":
        np.savez(path, X=X, y=Y)
    else:
        path.write_text(as_csv(ROWS) if kind == "csv" else as_libsvm(ROWS))
    found, labels = arrays_of(open_source(path, label="y" if kind == "csv" else None))
    assert hasattr(found, "indptr") == (kind == "libsvm")
    assert np.array_equal(found.toarray() if kind == "libsvm" else found, X)
    assert labels.tolist() == Y
    assert LASVMClassifier(C=10).fit(found, labels).score(found, labels) == 1


@pytest.mark.parametrize("kind", ["svm", "npz"])
def test_sparse_rows_may_be_widened_and_may_be_empty(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "npz":
        parts = {"data": [5.0], "indices": [1], "indptr": [0, 1, 1], "shape": [2, 3]}
        np.savez(path, y=[1, -1], **{f"X_{name}": part for name, part in parts.items()})
    else:
        path.write_text("1 2:5\n-1\n")
    found, _ = arrays_of(open_source(path), dim=7)
    assert found.shape == (2, 7)
    assert (found[0, 1], found[1].nnz) == (5, 0)


def test_estimators_refuse_features_that_are_not_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,y\nred,1\nblue,0\n")
    with pytest.raises(ReadError, match="estimators take rows of numbers"):
        arrays_of(open_source(path, label="y"))


@pytest.mark.parametrize("names", [("set.csv", "set_test.csv"), ("set", "set.t"), ("set.svm", "set_test.svm")])
def test_a_benchmark_reads_tables_and_libsvm_text_with_their_test_files(tmp_path, names):
    written = as_csv if names[0].endswith("csv") else as_libsvm
    wider = [([0.0, 1.0, 0.0], -1)]
    for name, rows in zip(names, (ROWS[:2], wider), strict=True):
        (tmp_path / name).write_text(written(rows))
    found, labels, test, test_labels = load(tmp_path, "set")
    assert (found.shape, test.shape) == ((2, 3), (1, 3))
    assert (labels.tolist(), test_labels.tolist()) == ([1, -1], [-1])


def test_a_benchmark_reads_a_file_of_arrays_unchanged(tmp_path):
    train = X.astype(np.float32)
    np.savez(tmp_path / "set.npz", X_train=train, y_train=Y)
    found, labels, *rest = load(tmp_path, "set")
    assert found.dtype == np.float32
    assert np.array_equal(found, train)
    assert (labels.tolist(), rest) == (Y, [None, None])
    with pytest.raises(SystemExit, match="no data set other"):
        load(tmp_path, "other")
