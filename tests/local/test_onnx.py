"""An exported estimator gives the same decision values and labels under onnxruntime."""

import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from hinged.local.onnx import INPUT, Graph, _scaled
from hinged.sklearn import FOGDClassifier, HingedClassifier, LASVMClassifier, NOGDClassifier, SMOClassifier, to_onnx
from hinged.solvers.estimators.loading import CLASSIFIERS
from hinged.solvers.estimators.scaling import DENSE, SPARSE, found, matrix_of

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def data(classes, n=150):
    """Return columns of several sizes, one with a heavy tail, one of two values, and one that is constant."""
    random = np.random.default_rng(classes)
    X = random.normal(size=(n, 5)) * [1.0, 100.0, 1.0, 1.0, 0.0]
    X[:, 2] = np.exp(3.0 * X[:, 2])
    X[:, 3] = X[:, 3] > 0
    y = (X[:, 0] + X[:, 1] / 100 + X[:, 3] > np.linspace(-0.5, 1.5, classes - 1)[:, None]).sum(axis=0)
    return X, y


def computed(model, X):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {INPUT: np.asarray(X, np.float64)})


def check(estimator, X):
    label, decision = computed(to_onnx(estimator), X.toarray() if sparse.issparse(X) else X)
    expected = estimator.decision_function(X).reshape(len(label), -1)
    assert np.abs(decision - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())
    assert label.tolist() == estimator.predict(X).tolist()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
@pytest.mark.parametrize("Estimator", [LASVMClassifier, SMOClassifier])
def test_decision_values_and_labels_are_those_of_the_estimator(Estimator, kernel, classes):
    X, y = data(classes)
    check(Estimator(kernel=kernel, scale="auto", degree=2, coef0=1.0, random_state=0).fit(X, y), X)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", sorted(CLASSIFIERS.keys() - {"FOGDClassifier"}))
def test_every_estimator_with_points_is_exported(name, classes):
    X, y = data(classes)
    budget = {"budget": 20} if hasattr(CLASSIFIERS[name], "budget") else {}
    check(CLASSIFIERS[name](scale="auto", random_state=0, **budget).fit(X, y), X)


def test_a_machine_in_double_precision_is_equal_to_nine_digits():
    X, y = load_iris(return_X_y=True)
    machine = LASVMClassifier(precision="float64", random_state=0).fit(X, y)
    _, decision = computed(to_onnx(machine), X)
    assert decision == pytest.approx(machine.decision_function(X), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("labels", [["b", "a"], [True, False], [7, -3], [1.0, 2.0], ["ü", "a", "c"]])
@pytest.mark.parametrize("Estimator", [LASVMClassifier, HingedClassifier])
def test_labels_keep_their_type_and_their_column(Estimator, labels):
    if Estimator is HingedClassifier and isinstance(labels[0], float):
        return  # a server has no such labels
    X, y = data(len(labels))
    check(Estimator(random_state=0).fit(X, np.array(labels)[y]), X)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("solver", [None, "lasvm"])
def test_a_model_of_numbers_that_races_is_exported_with_its_scale(solver, classes):
    X, y = data(classes)
    check(HingedClassifier(solver=solver).fit(X[::-1], y[::-1]), X)


def test_sparse_columns_are_scaled_alike():
    X, y = data(2)
    X[:, :3] *= np.abs(X[:, :3]) > 0.4
    check(LASVMClassifier(scale="auto", random_state=0).fit(sparse.csr_matrix(X), y), sparse.csr_matrix(X))


NUMBERS = st.one_of(st.floats(-5, 5), st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, -1.0, 1e100, -1e100]))


@pytest.mark.long
@pytest.mark.parametrize("form", [DENSE, SPARSE])
@settings(deadline=None)
@given(rows=st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=1, max_size=12))
def test_the_scale_is_the_scale_of_the_columns(form, rows):
    X = np.array(rows)
    csr = sparse.csr_array(X)
    parts = csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data
    scale = found(form, parts, 2)
    graph = Graph()
    name = _scaled(graph, scale)
    graph.add("Identity", name, output="decision")
    graph.add("Gather", np.array([0]), np.array([0]), output="label")
    _, scaled = computed(graph.model(2, 2), X)
    assert scaled == pytest.approx(matrix_of(scale.rows(parts), 2), abs=1e-9)


@pytest.mark.filterwarnings("ignore:y has a single class")
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda X, y: FOGDClassifier(random_state=0).fit(X, y), "FOGDClassifier keeps no points"),
        (lambda X, y: HingedClassifier(C=1.0).fit([{"a": "x", "b": v} for v in X[:, 0].tolist()], y), "cannot export"),
        (lambda X, y: HingedClassifier().fit(["to be", "or not"] * 40, ["u", "v"] * 40), "cannot export this model"),
        (lambda X, y: NOGDClassifier().fit(X[:1], y[:1]), "two classes"),
    ],
)
def test_what_cannot_be_exported_is_refused(made, message):
    X, y = data(2)
    with pytest.raises(ValueError, match=message):
        to_onnx(made(X, y))


def test_other_estimators_are_refused():
    with pytest.raises(TypeError, match="got LogisticRegression"):
        to_onnx(LogisticRegression())
    with pytest.raises(ValueError, match="not fitted"):
        to_onnx(LASVMClassifier())


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_the_memory_of_an_answer_grows_with_rows_times_points_whatever_the_columns(kernel):
    program = f"""
        import resource
        import numpy as np, onnxruntime
        from hinged.sklearn import LASVMClassifier, to_onnx
        X = np.random.default_rng(0).normal(size=(4000, 40))
        machine = LASVMClassifier(kernel={kernel!r}, gamma=1.0).fit(X[:300], np.arange(300) % 2)
        session = onnxruntime.InferenceSession(to_onnx(machine).SerializeToString())
        session.run(None, {{"X": X[:2]}})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        session.run(None, {{"X": X}})
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / (4000 * len(machine.support_)))
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 8 * 10


@pytest.mark.parametrize("rows", [0, 1, 300])
def test_an_exported_mean_answers_any_number_of_rows(rows):
    X, y = data(3)
    machine = LASVMClassifier(C="auto", random_state=0).fit(X, y)
    assert len(machine.decision_parts().expansions) > 1
    label, decision = computed(to_onnx(machine), np.resize(X, (rows, X.shape[1])))
    assert label.shape == (rows,)
    assert decision.shape == (rows, 3)
