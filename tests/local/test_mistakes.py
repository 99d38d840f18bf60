"""Mistakes of people who call the estimators: each is refused with one error that says what was got."""

import datetime as dt
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from hinged.river import HingedClassifier as RiverClassifier
from hinged.sklearn import HingedClassifier, LASVMClassifier, SMOClassifier, load

pytestmark = pytest.mark.filterwarnings("ignore:y has a single class")

NUMBERS = np.arange(20.0).reshape(10, 2)
TEXTS = ["good day", "bad day"] * 5
RECORDS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}] * 5
Y = [0, 1] * 5
FORMS = {"numbers": NUMBERS, "texts": TEXTS, "records": RECORDS}


@pytest.fixture(scope="module", params=FORMS)
def fitted(request):
    return HingedClassifier().fit(FORMS[request.param], Y)


@pytest.mark.parametrize(
    "X",
    ["good day", b"good", {"a": 1, "b": "x"}, None, 3.5, {1, 2}, (row for row in NUMBERS)],
    ids=lambda X: type(X).__name__,
)
def test_what_is_no_table_is_refused(fitted, X):
    for call in (fitted.predict, lambda X: HingedClassifier().fit(X, Y)):
        with pytest.raises(
            ValueError, match="X must be a matrix, a data frame, or a list of texts or dictionaries, got"
        ):
            call(X)


values = st.one_of(
    st.none(), st.floats(), st.integers(), st.booleans(), st.text(max_size=3), st.binary(max_size=2), st.dates(),
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(-9, 9) | st.text(max_size=2), max_size=2),
    st.lists(st.floats(), max_size=3),
)  # fmt: skip


@given(st.lists(values, min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_a_list_of_any_values_gets_one_prediction_each_or_is_refused(fitted, X):
    try:
        found = len(fitted.predict(X))
    except (ValueError, TypeError) as error:
        found = str(error)
    assert found == len(X) or re.search(r"X|x\[|row|column|array|string|infinity|NaN|convert", str(found))


@pytest.mark.parametrize("missing", [None, float("nan"), 3, {"a": 1}])
def test_a_missing_text_is_no_word(missing):
    for texts in ([*TEXTS[:-1], missing], [missing, *TEXTS[1:]]):
        with pytest.raises((ValueError, TypeError), match=r"x must be a text, got|column 'text'"):
            HingedClassifier(features="text").fit(texts, Y)
    model = RiverClassifier()
    model.learn_one("good day", 0)
    for call in (model.predict_one, lambda x: model.learn_one(x, 1)):
        with pytest.raises((ValueError, TypeError), match=r"x must be a text, got|column 'text'"):
            call(missing)


def test_x_of_another_form_than_the_first_is_refused():
    for X, other, problem in (
        (NUMBERS, TEXTS, "X must be a matrix or data frame of numbers.*got a list with 'good day'"),
        (NUMBERS, RECORDS, "X must be a matrix or data frame of numbers.*got a list with {'a': 1"),
        (RECORDS, TEXTS, r"X\[0\] must be a dictionary of values by name.*got 'good day'"),
        (RECORDS, [*RECORDS, None], r"X\[10\] must be a dictionary of values by name.*got None"),
        (TEXTS, NUMBERS, "a list of texts or one column, got 2 columns"),
    ):
        with pytest.raises(ValueError, match=problem):
            HingedClassifier().fit(X, Y).predict(other)
    for form in ("dense", "sparse"):
        with pytest.raises(ValueError, match="X must be a matrix or data frame of numbers"):
            HingedClassifier(features=form).fit(TEXTS, Y)


@pytest.mark.parametrize("Estimator", [HingedClassifier, LASVMClassifier, SMOClassifier])
@pytest.mark.parametrize("library", ["list", "pandas", "polars"])
def test_labels_that_are_missing_are_told_with_their_place(Estimator, library):
    column = list if library == "list" else pytest.importorskip(library).Series
    for fit in (Estimator().fit, lambda X, y: Estimator().partial_fit(X, y, classes=["a", "b"])):
        for wrong in (["a", "b", None, *"ababab", "a"], [True, False, None, *[True] * 7]):
            with pytest.raises(ValueError, match=r"Input y contains NaN: y\[2\] is (None|nan|<NA>); leave out"):
                fit(NUMBERS, column(wrong))
        with pytest.raises(ValueError, match="y must not mix texts with other labels, got 'a' and 1"):
            fit(NUMBERS, np.array(["a", 1] * 5, object))
        with pytest.raises(ValueError, match=r"Classifier.*requires y to be passed"):
            fit(NUMBERS, None)


def test_names_that_the_data_lack_are_told():
    with pytest.raises(ValueError, match="are not in class_weight"):
        HingedClassifier(class_weight={"fraud": 2}).fit(NUMBERS, Y)
    frame = pytest.importorskip("pandas").DataFrame(RECORDS)
    with pytest.raises(ValueError, match="columns must be names of columns of X, got 'note'"):
        HingedClassifier(columns={"note": "text", "b": "category"}).fit(frame, Y)


def test_parameters_may_be_numbers_of_numpy_and_nothing_else_of_python():
    model = HingedClassifier(C=np.float32(2), half_life=np.int64(50), configuration={"points_max": np.int64(99)})
    assert model.fit(NUMBERS, Y).configuration_["points_max"] == 99
    with pytest.raises(ValueError, match=r"kernel.type must be one of linear"):
        HingedClassifier(kernel=np.dot).fit(NUMBERS, Y)
    with pytest.raises(ValueError, match="C: "):
        HingedClassifier(C=dt.date(2026, 1, 1)).fit(NUMBERS, Y)


def test_only_a_missing_value_gets_the_advice_about_missing_values():
    model = HingedClassifier().fit(NUMBERS, Y)
    with pytest.raises(ValueError, match="features='named', takes missing values"):
        model.predict([[1.0, np.nan]])
    with pytest.raises(ValueError, match=r"must be finite and at most 1e.100 from 0$"):
        model.predict([[1.0, 1e200]])


def test_another_file_and_an_unfitted_estimator_are_told(tmp_path):
    (tmp_path / "notes.txt").write_text("import this, that and the rest")
    with pytest.raises(ValueError, match="this is no file of hinged: it begins with b'impo'"):
        load(tmp_path / "notes.txt")
    for Estimator in (HingedClassifier, LASVMClassifier):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            Estimator().predict(NUMBERS)


def test_a_batch_solver_names_the_way_to_probabilities():
    with pytest.raises(AttributeError) as refused:
        SMOClassifier().fit(NUMBERS, Y).predict_proba(NUMBERS)
    assert "CalibratedClassifierCV" in str(refused.value.__cause__)
