import datetime as dt
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from hinged.sklearn import HingedClassifier, LASVMClassifier, load

# Calibrated probabilities may put another class first than the decision values do, as with SVC(probability=True).
CALIBRATED = {"check_classifiers_train"}
# As with every estimator here, a weight equals a repetition only up to the solver's tolerance.
WITHIN_A_TOLERANCE = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}


def stream(n=120):
    """Return columns of a payment: a number with gaps, strings with gaps, a boolean, a time, a category, a text."""
    random = np.random.default_rng(0)
    begin = dt.datetime(2026, 1, 1)  # noqa: DTZ001  a table's times have no zone
    columns = {
        "amount": [None if k % 9 == 0 else float(a) for k, a in enumerate(random.exponential(50, n))],
        "shop": [None if k % 7 == 0 else str(s) for k, s in enumerate(random.choice(["a", "b", "c"], n))],
        "card": random.integers(0, 2, n).astype(bool).tolist(),
        "day": [begin + dt.timedelta(hours=5 * k) for k in range(n)],
        "note": [f"stolen card {k % 3}" if k % 4 == 0 else "as usual" for k in range(n)],
    }
    pairs = zip(columns["shop"], columns["amount"], strict=True)
    y = ["fraud" if shop == "a" and (amount or 0) > 20 else "fine" for shop, amount in pairs]
    return columns, np.array(y)


def rows(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:y has a single class")
def test_scikit_learn_finds_nothing_amiss_but_calibrated_probabilities_and_the_last_digits_of_weights():
    results = check_estimator(HingedClassifier(), on_skip=None, on_fail=None)
    failed = [found for found in results if found["status"] == "failed"]
    assert {found["check_name"] for found in failed} == CALIBRATED | WITHIN_A_TOLERANCE
    assert all("elements" in str(found["exception"]) for found in failed)
    assert sum(found["status"] == "passed" for found in results) > 50


def test_without_settings_it_is_ahead_of_a_solver_without_settings():
    X, y = load_breast_cancer(return_X_y=True)
    by_name = LASVMClassifier(random_state=0).fit(X[:400], y[:400])
    assert HingedClassifier().fit(X[:400], y[:400]).score(X[400:], y[400:]) > by_name.score(X[400:], y[400:]) + 0.03


@pytest.mark.long
def test_the_number_of_cores_changes_nothing():
    X, y = load_breast_cancer(return_X_y=True)

    def bits(n_jobs):
        model = HingedClassifier(n_jobs=n_jobs).fit(X[:300], y[:300]).partial_fit(X[300:500], y[300:500])
        return model.decision_function(X).tobytes(), model.predict_proba(X).tobytes()

    assert bits(None) == bits(2) == bits(-1)
    with pytest.raises(ValueError, match="n_jobs == 0"):
        HingedClassifier(n_jobs=0).fit(X, y)


@pytest.mark.long
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_is_the_dictionaries_of_its_rows(library):
    frames = pytest.importorskip(library)
    columns, y = stream()
    frame, x = frames.DataFrame(columns), rows(columns)
    model = HingedClassifier(columns={"note": "text"}).fit(frame, y)
    same = HingedClassifier(columns={"note": "text"}).fit(x, y)
    assert np.array_equal(model.decision_function(frame), same.decision_function(x))
    assert model.feature_names_in_.tolist() == list(columns)
    assert model.configuration_["features"]["columns"] == {"note": {"type": "text"}}
    fields = {field["name"]: field for field in model.figures_["features"]["fields"]}
    assert fields["amount"]["number"]
    assert fields["shop"]["values"] == 3
    assert model.score(frame, y) > 0.9


def test_a_frame_of_numbers_is_a_matrix_and_categories_are_names():
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    frame = pandas.DataFrame(X)
    assert np.array_equal(
        HingedClassifier().fit(frame, y).decision_function(frame), HingedClassifier().fit(X, y).decision_function(X)
    )
    frame = pandas.DataFrame(
        {
            "level": pandas.Categorical([k % 4 for k in range(150)]),
            "whole": pandas.array([None if k % 9 == 0 else k for k in range(150)], dtype="Int64"),
            "when": pandas.to_datetime(["2026-01-01", None, "2026-01-03T10:00:00"] * 50, format="ISO8601"),
        }
    )
    found = HingedClassifier().fit(frame, y).figures_["features"]["fields"]
    assert {field["name"]: field["values"] for field in found}["level"] == 4
    assert [field["number"] for field in found if field["name"] == "whole"] == [True]


@pytest.mark.parametrize("form", [list, tuple, np.array, pytest.param("Series", id="series")])
def test_texts_are_learned_from_their_words(form):
    if form == "Series":
        form = pytest.importorskip("pandas").Series
    texts = ["win a prize now", "lunch at noon", "free prize", "see you at lunch"] * 20
    y = ["spam", "ham", "spam", "ham"] * 20
    model = HingedClassifier().fit(form(texts), y)
    assert model.configuration_["features"]["type"] == "text"
    assert model.predict(form(["a prize", "lunch"])).tolist() == ["spam", "ham"]


def test_a_matrix_with_missing_values_has_named_columns_and_a_matrix_without_refuses_them():
    X, y = load_iris(return_X_y=True)
    gaps = np.where(np.arange(X.size).reshape(X.shape) % 11 == 0, np.nan, X)
    assert HingedClassifier().fit(gaps, y).score(gaps, y) > 0.85
    model = HingedClassifier().fit(X, y)
    with pytest.raises(ValueError, match="features='named', takes missing values"):
        model.predict(gaps)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.full((1, 4), np.inf))


def test_objects_of_an_array_may_be_texts():
    X = np.array([["red", 1.0, None], ["blue", 2.0, True]] * 20, object)
    assert HingedClassifier().fit(X, ["a", "b"] * 20).predict(X[:2]).tolist() == ["a", "b"]


@pytest.mark.long
def test_a_stream_in_pieces_is_the_whole_stream_for_every_form():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    columns, labels = stream()
    for values, given in (
        (X[order], y[order]),
        (sparse.csr_array(X[order]), y[order]),
        (rows(columns), labels),
        (columns["note"], labels),
    ):
        whole = HingedClassifier(finish=False).fit(values, given)
        pieces = HingedClassifier()
        for begin in range(0, len(given), 17):
            pieces.partial_fit(values[begin : begin + 17], given[begin : begin + 17])
        assert np.array_equal(whole.classes_, pieces.classes_)
        assert np.array_equal(whole.decision_function(values), pieces.decision_function(values))
        assert np.array_equal(whole.predict_proba(values), pieces.predict_proba(values))


def test_partial_fit_finds_classes_or_keeps_to_declared_ones():
    X = np.arange(60.0).reshape(-1, 1) % 3
    y = np.array(["b", "c", "a"])[X[:, 0].astype(int)]
    found = HingedClassifier().partial_fit(X[:2], y[:2])
    assert found.classes_.tolist() == ["b", "c"]
    assert found.partial_fit(X, y).classes_.tolist() == ["a", "b", "c"]
    assert found.predict(X[:3]).tolist() == ["b", "c", "a"]
    declared = HingedClassifier().partial_fit(X[:2], y[:2], classes=["a", "b", "c"])
    assert declared.predict_proba(X[:1]).shape == (1, 3)
    with pytest.raises(ValueError, match=r"examples\[0\].*'?d"):
        declared.partial_fit(X[:1], ["d"])
    with pytest.raises(ValueError, match="classes must be as in the first call"):
        declared.partial_fit(X[:1], ["a"], classes=["a", "b"])
    assert declared.partial_fit(X, y).predict(X[:3]).tolist() == ["b", "c", "a"]


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [7, -3], [1.0, 2.0]])
def test_labels_and_columns_of_probabilities_are_in_ascending_order(labels):
    X = np.arange(80.0).reshape(-1, 1) % 2
    y = np.array(labels)[X[:, 0].astype(int)]
    model = HingedClassifier().fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(X).tolist() == y.tolist()
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert np.array_equal(model.decision_function(X) > 0, y == model.classes_[1])
    assert np.array_equal(model.predict_proba(X).argmax(axis=1), np.searchsorted(model.classes_, y))


@pytest.mark.long
def test_a_copy_and_a_file_continue_to_learn_to_the_bit(tmp_path):
    columns, y = stream()
    x = rows(columns)
    model = HingedClassifier(columns={"note": "text"}, class_weight={"fraud": 3.0}).partial_fit(x[:60], y[:60])
    model.save(tmp_path / "m.hinged")
    others = [load(tmp_path / "m.hinged"), pickle.loads(pickle.dumps(model)), clone(model).partial_fit(x[:60], y[:60])]  # noqa: S301
    model.partial_fit(x[60:], y[60:])
    for other in others:
        assert other.get_params() == model.get_params()
        other.partial_fit(x[60:], y[60:])
        assert np.array_equal(other.classes_, model.classes_)
        assert np.array_equal(other.decision_function(x), model.decision_function(x))
        assert np.array_equal(other.predict_proba(x), model.predict_proba(x))


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"C": "1"}, 'C: .*got "1"'),
        ({"C": 0.0}, "C: .*greater than 0"),
        ({"kernel": "sigmoid"}, "kernel.type must be one of linear"),
        ({"gamma": -1.0}, "gamma"),
        ({"solver": "svc"}, "solver: must be one of auto"),
        ({"features": "wide"}, "features must be None or one of dense"),
        ({"columns": {"a": "words"}}, "features.columns.a.type"),
        ({"half_life": 3}, "half_life.examples"),
        ({"configuration": {"budget_max": 3}}, "unknown part 'budget_max'"),
    ],
)
def test_an_invalid_parameter_is_refused_with_the_allowed_values(parameters, problem):
    with pytest.raises(ValueError, match=problem):
        HingedClassifier(**parameters).fit([{"a": "b"}, {"a": "c"}], [0, 1])


def test_invalid_input_is_refused_before_anything_changes():
    model = HingedClassifier().fit([{"a": 1}, {"a": "b"}] * 10, [0, 1] * 10)
    before = model.to_model_file()
    for x, y, error, problem in (
        ([{"a": [1]}], [0], TypeError, "column 'a': argument must be a string"),
        ([{"a": 1e300}], [0], ValueError, "must be finite"),
        ([{"a": 1}], [0.5], ValueError, "Unknown label type"),
        ([{"a": 1}], [0, 1], ValueError, "inconsistent"),
        ([{"a": "x" * 1001}], [0], ValueError, "at most 1000 characters"),
    ):
        with pytest.raises(error, match=problem):
            model.partial_fit(x, y)
        assert model.to_model_file() == before


def test_the_weights_of_rare_classes_may_be_balanced():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 2))
    y = (X[:, 0] + 0.8 * random.normal(size=400) > 1.6).astype(int)
    plain, balanced = (HingedClassifier(class_weight=weight).fit(X, y) for weight in (None, "balanced"))
    assert balanced.predict(X).sum() > plain.predict(X).sum()
    assert balanced.configuration_["class_weight"]["1"] == pytest.approx(400 / (2 * y.sum()))


def test_verbose_tells_how_far_a_fit_is_and_changes_nothing(capsys, monkeypatch):
    X, y = load_breast_cancer(return_X_y=True)
    silent = HingedClassifier().fit(X[:250], y[:250])
    assert capsys.readouterr().out == ""
    loud = HingedClassifier(verbose=True).fit(X[:250], y[:250])
    begin, end = capsys.readouterr().out.splitlines()
    assert begin.startswith("250 of 250 examples: 250 points, 9")
    assert end.startswith("finished: 250 points, 9")
    assert (loud.decision_function(X) == silent.decision_function(X)).all()
    monkeypatch.setattr("hinged.local.model.PART", 100)
    HingedClassifier(verbose=True, finish=False).fit(X[:250], y[:250])
    assert [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()] == ["100", "200", "250"]


def test_it_can_be_searched():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(HingedClassifier(solver="lasvm"), {"C": [0.1, 10.0], "kernel": ["rbf", "laplacian"]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.9


def weighted():
    """Return X, y and weights. Some weights are 0, and some are 1."""
    random = np.random.default_rng(3)
    X = random.normal(size=(90, 3))
    return X, np.where(X[:, 0] + 0.3 * random.normal(size=90) > 0, "yes", "no"), random.choice([0.0, 1.0, 2.5], 90)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, lambda X: [dict(enumerate(x)) for x in X.tolist()]])
def test_examples_of_weight_0_are_not_learned(form):
    X, y, weights = weighted()
    taught = weights > 0
    model = HingedClassifier(C=1.0).fit(form(X), y, sample_weight=weights)
    same = HingedClassifier(C=1.0).fit(form(X[taught]), y[taught], sample_weight=weights[taught])
    assert np.array_equal(model.decision_function(form(X)), same.decision_function(form(X)))
    assert model.figures_["examples"] == taught.sum()


def test_weights_of_1_are_no_weights_and_batches_are_one_stream():
    X, y, weights = weighted()
    plain = HingedClassifier(C=1.0).fit(X, y)
    assert np.array_equal(plain.decision_function(X), HingedClassifier(C=1.0).fit(X, y, 1.0).decision_function(X))
    one = HingedClassifier(C=1.0).partial_fit(X, y, sample_weight=weights)
    several = HingedClassifier(C=1.0)
    for part in (slice(0, 40), slice(40, 41), slice(41, 90)):
        several.partial_fit(X[part], y[part], classes=["no", "yes"], sample_weight=weights[part])
    assert np.array_equal(one.predict(X), several.predict(X))


def test_a_heavier_class_is_class_weight():
    X, y, _ = weighted()
    by_class = HingedClassifier(C=1.0, class_weight={"yes": 4.0}).fit(X, y)
    by_example = HingedClassifier(C=1.0).fit(X, y, sample_weight=np.where(y == "yes", 4.0, 1.0))
    assert by_example.decision_function(X) == pytest.approx(by_class.decision_function(X), abs=1e-9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([1.0, 2.0], r"sample_weight must be one number for each of 90 examples, got \(2,\)"),
        (np.full(90, -1.0), "sample_weight must be finite and >= 0, got -1"),
        (np.zeros(90), "sample_weight must be > 0 for one example at least"),
        (np.full(90, 1e300), "weight"),
    ],
)
def test_an_invalid_sample_weight_is_refused(wrong, message):
    X, y, _ = weighted()
    with pytest.raises(ValueError, match=message):
        HingedClassifier(C=1.0).fit(X, y, sample_weight=wrong)
