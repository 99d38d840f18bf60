import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hinged.readers import ReadError, open_source
from hinged.readers.arrays import BLOCK_ROWS


@pytest.fixture
def save(tmp_path):
    def save(**arrays):
        path = tmp_path / "a.npz"
        np.savez(path, **arrays)
        return path

    return save


def csr(X, name="X"):
    """The CSR parts of a dense array, by a plain loop."""
    indices = [np.flatnonzero(row) for row in X]
    return {
        f"{name}_data": np.concatenate([row[at] for row, at in zip(X, indices, strict=True)]),
        f"{name}_indices": np.concatenate(indices),
        f"{name}_indptr": np.cumsum([0, *map(len, indices)]),
        f"{name}_shape": np.array(X.shape),
    }


@given(
    X=hnp.arrays(
        st.sampled_from([np.uint8, np.int32, np.float32, np.float64]),
        hnp.array_shapes(min_dims=2, max_dims=3, max_side=4),
        elements={"min_value": 0, "max_value": 100},
    )
)
def test_reading_returns_dense_and_sparse_arrays_as_written(tmp_path_factory, X):
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    y = np.arange(len(X))
    np.savez(path, X=X, y=y)
    flat = X.reshape(len(X), -1)
    source = open_source(path)
    assert [e.x for e in source] == flat.tolist()
    assert [e.y for e in source] == y.tolist()
    assert source.features == {"type": "dense", "dim": flat.shape[1]}

    np.savez(path, y=y, **csr(flat))
    source = open_source(path)
    assert source.features == {"type": "sparse", "dim": flat.shape[1]}
    for example, row in zip(source, flat, strict=True):
        back = np.zeros_like(row)
        back[example.x["indices"]] = example.x["values"]
        assert (back == row).all()


def test_the_file_beside_a_training_file_is_held_out(save):
    X = np.arange(6.0).reshape(3, 2)
    path = save(X_train=X, y_train=[0, 1, 0], X_test=X + 1, y_test=[1, 1, 1], X_all=X, y_all=[2, 2, 2])
    source = open_source(path)
    assert [e.y for e in source] == [0, 1, 0]
    assert [(e.x, e.y) for e in source.held_out] == list(zip((X + 1).tolist(), [1, 1, 1], strict=True))
    assert open_source(path, label="y_all").held_out is None
    assert open_source(save(X_train=X, y_train=[0, 1, 0])).held_out is None
    sparse = open_source(save(y_train=[0, 1, 0], y_test=[1, 1, 1], **csr(X, "X_train"), **csr(X, "X_test")))
    assert sparse.held_out.features == {"type": "sparse", "dim": 2}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([1, 255], dtype=np.uint8), [1, 255]),
        (np.array([True, False]), [True, False]),
        (np.array([1.0, -2.0]), [1, -2]),
        (np.array([0.5, 2.0], dtype=np.float32), ["0.5", 2]),
        (np.array(["a", "1"]), ["a", "1"]),
        (np.array([b"a", "é".encode()]), ["a", "é"]),
        (np.array([[3], [4]]), [3, 4]),
    ],
)
def test_labels_keep_their_types(save, labels, expected):
    read = [e.y for e in open_source(save(X=np.eye(2), y=labels))]
    assert [(type(label), label) for label in read] == [(type(label), label) for label in expected]


def test_rows_keep_their_numbers_and_ids_in_any_order(save):
    count = BLOCK_ROWS + 10
    path = save(X=np.arange(count)[:, None], y=np.arange(count), names=[f"u{i}" for i in range(count)])
    assert [e.row for e in open_source(path)] == list(range(1, count + 1))
    source = open_source(path, id_name="names")
    shuffled = list(source.shuffled(3))
    assert [e.row for e in shuffled] != sorted(e.row for e in shuffled)
    assert sorted(e.row for e in shuffled) == list(range(1, count + 1))
    assert all(e.x == [e.y] and e.id == f"u{e.y}" and e.row == e.y + 1 for e in shuffled)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(2), "y": [1]}, "2 rows of features but 1 labels"),
        ({"X": np.ones(2), "y": [1, 2]}, "must be rows of numbers"),
        ({"X": np.array([["a"]]), "y": [1]}, "must be rows of numbers"),
        ({"X": np.eye(2), "label": [1, 2]}, "no array 'y'; its arrays are X, label"),
        ({"Z": np.eye(2), "y": [1, 2]}, "their array would be 'X'; its arrays are Z, y"),
        ({"X": np.eye(2), "y": np.eye(2)}, "must hold one value for each row"),
        ({"X": np.eye(2), "y": [1.0, np.nan]}, "not finite"),
        ({"X": np.array([[1.0], [np.inf]]), "y": [1, 2]}, r"X\[1\]: a value is not finite"),
        ({"X": np.eye(2), "y": np.array([1j, 2])}, "must be numbers, booleans or strings"),
        ({"X": np.eye(2), "y": np.array([None, 1])}, "allow_pickle"),
        ({"y": [1, 2], **csr(np.eye(2)), "X_indices": np.array([0, 2])}, "contradict"),
        ({"y": [1, 2], **csr(np.eye(2)), "X_indices": np.array([0, -1])}, "contradict"),
        ({"y": [1, 2], **csr(np.eye(2)), "X_indptr": np.array([0, 3, 2])}, "contradict"),
        ({"y": [1, 2], **csr(np.eye(2)), "X_indptr": np.array([0, 2])}, "contradict"),
        ({"y": [1, 2], **csr(np.eye(2)), "X_data": np.ones(3)}, "contradict"),
        ({"y": [1, 2], **csr(np.eye(2)), "X_shape": np.array([2.0, 2.0])}, "do not describe a matrix"),
        ({"y": [1, 2], **csr(np.eye(2)), "X_data": np.array([1.0, np.nan])}, r"X\[1\]: a value is not finite"),
    ],
)
def test_invalid_arrays_are_reported(save, arrays, message):
    with pytest.raises(ReadError, match=message):
        list(open_source(save(**arrays)))


def test_an_invalid_npz_file_is_reported(tmp_path):
    path = tmp_path / "a.npz"
    for content in (b"", b"text", b"PK\x03\x04 cut", b"\x80\x04K\x01."):
        path.write_bytes(content)
        with pytest.raises(ReadError, match="cannot read"):
            open_source(path)
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(ReadError, match="cannot read"):
        open_source(path)


def test_invalid_ids_are_reported(save):
    path = save(X=np.eye(2), y=[1, 2], names=["a"])
    with pytest.raises(ReadError, match="no array 'id'"):
        open_source(path, id_name="id")
    with pytest.raises(ReadError, match="2 rows of features but 1 ids"):
        open_source(path, id_name="names")
