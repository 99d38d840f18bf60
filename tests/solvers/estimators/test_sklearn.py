import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

import hinged.sklearn
from hinged.extras import Later
from hinged.sklearn import (
    AveragedPerceptronClassifier,
    BOGDClassifier,
    BPASClassifier,
    BSCAClassifier,
    BSGDClassifier,
    BudgetPerceptronClassifier,
    ExactSVMClassifier,
    FOGDClassifier,
    ForgetronClassifier,
    FullSVMClassifier,
    LASVMClassifier,
    LASVMGClassifier,
    LASVMIClassifier,
    LASVMNCClassifier,
    NOGDClassifier,
    OGDClassifier,
    PerceptronClassifier,
    ProjectronClassifier,
    ProjectronPlusPlusClassifier,
    RBPClassifier,
    SMOClassifier,
    TrackingSVMClassifier,
)
from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.reports import Finish
from tests.helpers.solvers.streams import two_moons

ONLINE = [
    LASVMClassifier,
    FullSVMClassifier,
    LASVMGClassifier,
    LASVMNCClassifier,
    LASVMIClassifier,
    TrackingSVMClassifier,
    BSCAClassifier,
    BSGDClassifier,
]
BASELINES = [
    PerceptronClassifier,
    AveragedPerceptronClassifier,
    OGDClassifier,
    BudgetPerceptronClassifier,
    RBPClassifier,
    ForgetronClassifier,
    ProjectronClassifier,
    ProjectronPlusPlusClassifier,
    BPASClassifier,
    BOGDClassifier,
    FOGDClassifier,
    NOGDClassifier,
]
ESTIMATORS = [SMOClassifier, ExactSVMClassifier, *ONLINE, *BASELINES]
estimators = pytest.mark.parametrize("Estimator", ESTIMATORS)
with_points = pytest.mark.parametrize("Estimator", [each for each in ESTIMATORS if each is not FOGDClassifier])
METRICS = {
    "linear": linear_kernel,
    "poly": lambda X, Z: polynomial_kernel(X, Z, degree=2, gamma=0.5, coef0=1.0),
    "rbf": lambda X, Z: rbf_kernel(X, Z, gamma=0.5),
    "laplacian": lambda X, Z: laplacian_kernel(X, Z, gamma=0.5),
}


def blobs(n=150, classes=3, seed=0):
    return make_blobs(n, centers=[[0, 0], [2, 0], [0, 2]][:classes], cluster_std=0.7, random_state=seed)


def unpickled(model):
    return pickle.loads(pickle.dumps(model))  # noqa: S301 - it is our own


def one_pass(Estimator, **parameters):
    """Let the estimator learn each example once, in the given order, without further epochs or finishing."""
    finish = {"finish": False} if "finish" in Estimator().get_params() else {}
    return Estimator(**finish, **{"shuffle": False, "random_state": 0, **parameters})


WITHIN_A_TOLERANCE = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}
"""For these estimators, a weight equals a repetition only up to the solver's tolerance, and probabilities depend on the
order. As with SVC, machines of repeated examples agree within a tolerance (test_sample_weight.py), but these checks
require every digit.
"""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:y has a single class")
@estimators
def test_scikit_learn_finds_nothing_amiss(Estimator):
    results = check_estimator(Estimator(), on_skip=None, on_fail=None)
    failed = {found["check_name"]: found["exception"] for found in results if found["status"] == "failed"}
    for name in failed.keys() - WITHIN_A_TOLERANCE:
        raise AssertionError(name) from failed[name]
    assert failed.keys() == WITHIN_A_TOLERANCE
    assert sum(found["status"] == "passed" for found in results) > 50


@pytest.mark.parametrize("Estimator", [SMOClassifier, LASVMClassifier, ExactSVMClassifier])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_a_converged_machine_with_a_bias_is_SVC(Estimator, kernel):
    X, y = two_moons(200, seed=1)
    shared = {"C": 2.0, "kernel": kernel, "coef0": 1.0, "degree": 2}
    reference = SVC(**shared, tol=1e-5).fit(X, y)
    model = Estimator(**shared, random_state=0)
    if "tol" in model.get_params():
        model.set_params(tol=1e-5)
    if Estimator is LASVMClassifier:
        model.set_params(epochs=5, seed_max=10_000)
    model.fit(X, y)
    assert model.decision_function(X) == pytest.approx(reference.decision_function(X), abs=5e-3)
    assert abs(model.n_support_.sum() - reference.n_support_.sum()) <= 2


def test_weights_of_classes_are_those_of_SVC():
    X, y = blobs(200, classes=2)
    rare = np.flatnonzero((y == 0) | (np.arange(y.size) % 5 == 0))
    X, y = X[rare], y[rare]
    for weight in ("balanced", {0: 0.5, 1: 4.0}, {1: 4.0}):
        reference = SVC(tol=1e-5, class_weight=weight).fit(X, y)
        model = SMOClassifier(tol=1e-5, class_weight=weight, precision="float64").fit(X, y)
        assert model.decision_function(X) == pytest.approx(reference.decision_function(X), abs=2e-3)


@with_points
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", METRICS)
def test_the_decision_is_made_of_the_public_attributes(Estimator, classes, kernel):
    X, y = blobs(classes=classes)
    model = Estimator(kernel=kernel, gamma=0.5, degree=2, coef0=1.0, random_state=0).fit(X, y)
    columns, found = (1 if classes == 2 else 3), model.n_support_.sum()
    assert model.support_vectors_.shape == (found, 2)
    assert model.dual_coef_.shape == (columns, found)
    assert model.intercept_.shape == (columns,)
    assert model.n_support_.shape == (classes,)
    assert (model.dual_coef_ != 0).any(axis=0).all()
    made = METRICS[kernel](X, model.support_vectors_) @ model.dual_coef_.T + model.intercept_
    decision = model.decision_function(X)
    assert decision.shape == ((len(X),) if classes == 2 else (len(X), 3))
    assert decision.reshape(len(X), -1) == pytest.approx(made, rel=1e-3, abs=1e-3)


@estimators
def test_sparse_input_gives_the_bits_of_dense_input(Estimator):
    X, y = blobs()
    X[np.abs(X) < 0.5] = 0.0
    dense = Estimator(random_state=0).fit(X, y)
    for form in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        model = Estimator(random_state=0).fit(form(X), y)
        assert np.array_equal(model.decision_function(form(X)), dense.decision_function(X))
        if Estimator is not FOGDClassifier:
            assert sparse.issparse(model.support_vectors_)
            assert np.array_equal(model.support_vectors_.toarray(), dense.support_vectors_)


def test_every_solver_of_the_catalogue_has_an_estimator():
    tracking = {f"tracking-{algorithm}" for algorithm in TrackingSVMClassifier.ALGORITHMS}
    named = {Estimator.solver for Estimator in ESTIMATORS if Estimator is not TrackingSVMClassifier}
    assert {"auto", *tracking, *named} == SOLVERS.keys()
    assert LASVMClassifier(C="auto")._solver_name() == "auto"
    assert {Estimator.__name__ for Estimator in ESTIMATORS} <= set(hinged.sklearn.__all__)


def test_only_solvers_with_a_bound_have_C():
    bounded = {Estimator for Estimator in ESTIMATORS if "C" in Estimator().get_params()}
    assert set(ESTIMATORS) - bounded == set(BASELINES) - {BPASClassifier, BOGDClassifier}


def test_without_points_there_are_no_support_vectors():
    X, y = blobs(classes=2)
    model = FOGDClassifier(random_state=0).fit(X, y)
    for name in ("support_", "support_vectors_", "n_support_", "dual_coef_", "coef_"):
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="FOGDClassifier keeps no points"):
        _ = model.support_
    assert model.intercept_.tolist() == [0.0]
    assert model.n_iter_ > 0


@pytest.mark.parametrize("Estimator", ONLINE)
def test_a_stream_in_pieces_is_the_stream(Estimator):
    X, y = blobs()
    whole = Estimator(gamma=0.5, random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    pieces = Estimator(gamma=0.5, random_state=0)
    for k in range(0, len(X), 7):
        pieces.partial_fit(X[k : k + 7], y[k : k + 7], classes=[2, 0, 1] if k < 20 else None)
    assert np.array_equal(whole.decision_function(X), pieces.decision_function(X))
    fitted = one_pass(Estimator, gamma=0.5, **({"examples": 10_000} if Estimator is BSGDClassifier else {})).fit(X, y)
    assert np.array_equal(whole.decision_function(X), fitted.decision_function(X))


@estimators
@pytest.mark.parametrize("copied", [unpickled, copy.deepcopy])
def test_a_copy_goes_on_learning_to_the_bit(Estimator, copied):
    X, y = blobs()
    model = Estimator(random_state=0).partial_fit(X[:70], y[:70], classes=[0, 1, 2])
    twin = copied(model)
    assert np.array_equal(model.decision_function(X), twin.decision_function(X))
    model.partial_fit(X[70:], y[70:])
    assert not np.array_equal(model.decision_function(X), twin.decision_function(X))
    twin.partial_fit(X[70:], y[70:])
    mine, other = model.solver_.state(), twin.solver_.state()
    assert all(np.array_equal(mine[name], other[name]) for name in mine)


def test_a_pickle_holds_no_cached_rows():
    X, y = two_moons(1000, noise=0.6)
    model = LASVMClassifier().fit(X, y)
    assert model.solver_.cache.lines.nbytes > 1e6
    assert len(pickle.dumps(model)) < 2e5


@pytest.mark.parametrize("Estimator", ONLINE)
def test_random_state_decides_all_that_is_random(Estimator):
    X, y = two_moons(300, noise=0.5)
    fits = [
        one_pass(Estimator, shuffle=True, epochs=2, random_state=seed).fit(X, y).decision_function(X)
        for seed in (1, 1, 2)
    ]
    assert np.array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


def test_a_fitted_estimator_goes_on_with_the_stream():
    X, y = two_moons(400, seed=3)
    model = LASVMClassifier(random_state=0).fit(X[:200], y[:200])
    seen = model.solver_.seen.sum()
    model.partial_fit(X[200:], y[200:])
    assert model.solver_.seen.sum() == seen + 200
    keys = model.solver_.state()["key"]
    keys = keys[keys >= 0]
    assert np.unique(keys).size == keys.size


def test_a_second_epoch_enters_no_example_twice():
    X, y = two_moons(1500, seed=3)
    model = LASVMClassifier(random_state=0, epochs=3).fit(X, y)
    assert model.solver_.seen.sum() == 1500


@estimators
def test_it_works_in_a_pipeline_and_a_grid_search(Estimator):
    X, y = blobs()
    labels = np.array(["low", "right", "top"])[y]
    pipeline = Pipeline([("scale", StandardScaler()), ("svm", Estimator(random_state=0))])
    search = GridSearchCV(pipeline, {"svm__gamma": [0.5, "scale"]}, cv=2).fit(X, labels)
    assert search.best_score_ > 0.8
    assert set(search.predict(X)) == {"low", "right", "top"}


@estimators
def test_a_clone_has_every_parameter(Estimator):
    parameters = Estimator(coef0=3.0).get_params()
    assert parameters["coef0"] == 3.0
    assert clone(Estimator(**parameters)).get_params() == parameters
    assert {"kernel", "gamma", "class_weight", "random_state"} < parameters.keys()


@estimators
def test_it_offers_what_its_solver_takes_with_the_same_defaults(Estimator):
    name = Estimator()._solver_name()
    entry = SOLVERS[name]
    signatures = [inspect.signature(base.__init__).parameters.values() for base in reversed(entry.make.__mro__[:-1])]
    taken = {p.name: p.default for parameters in signatures for p in parameters if p.kind == p.KEYWORD_ONLY}
    offered = Estimator().get_params()
    kept = {"seed", "dtype", "cache_bytes", "C", "points_max", "when_full"} - offered.keys()
    idle = {
        "full": {"clean_every", "ramp_s", "ramp_start"},
        "lasvm-g": {"ramp_s", "ramp_start"},
        "projectron": {"plus"},
        "projectron++": {"plus"},
    }.get(name, set())
    assert taken.keys() - offered.keys() == kept | idle | entry.fixed.keys() - {"algorithm"}
    differ = {name for name in taken.keys() & offered.keys() if taken[name] != offered[name]}
    assert differ <= {"examples"}  # with None, fit counts the examples


def test_gamma_is_that_of_SVC():
    X, y = blobs()
    for gamma in ("scale", "auto", 0.3):
        for form in (np.asarray, sparse.csr_array):
            assert SMOClassifier(gamma=gamma).fit(form(X), y).solver_.kernel.gamma == pytest.approx(
                SVC(gamma=gamma).fit(X, y)._gamma
            )
    assert SMOClassifier().fit(np.ones((4, 2)), [0, 1, 0, 1]).solver_.kernel.gamma == 1.0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_with_a_scale_the_units_of_the_columns_do_not_matter(form):
    X, y = blobs()
    factors = 2.0 ** np.arange(X.shape[1]) * 1024.0 ** (np.arange(X.shape[1]) % 2)
    plain, mixed = (SMOClassifier(scale="auto").fit(form(rows), y) for rows in (X, X * factors))
    assert np.array_equal(plain.decision_function(form(X)), mixed.decision_function(form(X * factors)))
    assert np.array_equal(plain.decision_function(np.asarray(X)), plain.decision_function(sparse.csr_array(X)))
    twin = pickle.loads(pickle.dumps(mixed))  # noqa: S301 - it is our own
    assert np.array_equal(twin.predict(form(X * factors)), mixed.predict(form(X * factors)))
    for gamma in ("scale", "auto"):
        machine = SMOClassifier(scale="auto", gamma=gamma).fit(form(X), y)
        Z = form(X) if form is sparse.csr_array else X
        scaled = machine._scaled(Z)
        table = scaled.toarray() if sparse.issparse(scaled) else scaled
        assert machine.solver_.kernel.gamma == pytest.approx(1 / table.var(axis=0).sum())


def test_partial_fit_is_scaled_by_its_first_batch():
    X, y = blobs()
    X = X * np.linspace(1, 1e6, X.shape[1])
    machine = LASVMClassifier(scale="auto")
    machine.partial_fit(X[:40], y[:40], np.unique(y))
    scale = machine._scale
    machine.partial_fit(X[40:], y[40:])
    assert machine._scale is scale
    raw = LASVMClassifier().partial_fit(X[:40], y[:40], np.unique(y)).partial_fit(X[40:], y[40:])
    assert machine.score(X, y) > raw.score(X, y) + 0.1
    assert machine.get_params()["scale"] == "auto"


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"C": 0.0}, "C must be"),
        ({"C": "1"}, "C must be a number > 0 and < 1e.15 or 'auto', got '1'"),
        ({"C": True}, "C must be"),
        ({"degree": 2.5}, "degree must be an integer from 1 to 16, got 2.5"),
        ({"coef0": -1}, "coef0 must be a number >= 0 and < 1e\\+15, got -1"),
        ({"delta_min": -1}, "delta_min must be None or a number >= 0 and < 1000, got -1"),
        ({"delta_max": "2"}, "delta_max must be None or a number > 0, got '2'"),
        ({"shuffle": 1}, "shuffle must be True or False, got 1"),
        ({"random_state": -1}, "random_state must be"),
        ({"class_weight": {0: "2"}}, "class_weight must be"),
        ({"scale": "log"}, "scale must be"),
        ({"kernel": "precomputed"}, "kernel must be one of"),
        ({"gamma": "wide"}, "gamma must be"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"tol": "1e-3"}, "tol must be a number > 0 and < 1000, got '1e-3'"),
        ({"tol": float("nan")}, "tol must be a number > 0 and < 1000, got nan"),
        ({"epochs": 0}, "epochs must be"),
        ({"precision": "float16"}, "precision must be"),
        ({"class_weight": {0: 1.0, 7: 1.0}}, "class_weight"),
        ({"points_max": 20}, "holds .* points of at most 20"),
    ],
)
def test_a_bad_parameter_is_refused_and_the_fitted_estimator_stays(parameters, problem):
    X, y = blobs()
    model = LASVMClassifier(random_state=0).fit(X, y)
    before = model.decision_function(X)
    model.set_params(**parameters)
    with pytest.raises(ValueError, match=problem):
        model.fit(X, y)
    assert np.array_equal(model.decision_function(X), before)


def test_a_tolerance_that_was_not_reached_is_reported(monkeypatch):
    X, y = blobs()
    monkeypatch.setattr("hinged.solvers.dual.lasvm.LASVM.optimise", lambda self, tol: Finish(0, converged=False))
    with pytest.warns(ConvergenceWarning, match="LASVMClassifier did not reach its tolerance"):
        LASVMClassifier().fit(X, y)
    LASVMClassifier(finish=False).fit(X, y)


def test_a_batch_machine_at_its_limit_of_steps_warns_of_every_batch_and_stops_there(monkeypatch):
    X, y = blobs()
    X = X * [1.0, 1000.0]
    monkeypatch.setattr("hinged.solvers.dual.smo.STEPS_MAX", 20)
    monkeypatch.setattr("hinged.solvers.dual.smo.STEPS_PER_POINT_MAX", 0)
    model = SMOClassifier(kernel="linear", C=100.0)
    with pytest.warns(ConvergenceWarning, match="SMOClassifier did not reach its tolerance") as told:
        model.fit(X, y)
    assert told[0].filename == __file__
    assert model.n_iter_ <= 20 * len(np.unique(y))
    for _ in range(2):
        with pytest.warns(ConvergenceWarning, match="SMOClassifier did not reach its tolerance") as told:
            model.partial_fit(X, y)
        assert told[0].filename == __file__


def test_lambda_of_BSGD_counts_the_examples_that_fit_is_given():
    X, y = blobs()
    counted, told = (BSGDClassifier(examples=n, random_state=0).fit(X, y) for n in (None, len(X)))
    given = BSGDClassifier(regularization=1 / len(X), random_state=0).fit(X, y)
    assert np.array_equal(counted.decision_function(X), told.decision_function(X))
    assert counted.decision_function(X) == pytest.approx(given.decision_function(X))


@pytest.mark.parametrize("algorithm", TrackingSVMClassifier.ALGORITHMS)
def test_each_tracking_algorithm_has_its_solver(algorithm):
    X, y = blobs()
    model = TrackingSVMClassifier(algorithm=algorithm, random_state=0).fit(X, y)
    assert model.solver_.algorithm == algorithm
    assert model.score(X, y) > 0.85
    with pytest.raises(ValueError, match="algorithm must be one of 1, 2, cached, batch, got 3"):
        TrackingSVMClassifier(algorithm=3).fit(X, y)


def test_what_the_exact_solver_changed_itself_is_copied_too():
    X, y = blobs(classes=2)
    model = ExactSVMClassifier().fit(X, y)
    model.solver_.unlearn([3, 4, 5])
    model.solver_.change_C(3.0)
    twin = unpickled(model)
    assert twin.solver_.C == 3.0
    for machine in (model, twin):
        machine.partial_fit(X[3:6], y[3:6])
    assert np.array_equal(model.decision_function(X), twin.decision_function(X))
    reference = SVC(C=3.0, tol=1e-6).fit(X, y)
    assert model.decision_function(X) == pytest.approx(reference.decision_function(X), abs=1e-4)


def test_partial_fit_refuses_invalid_arguments():
    X, y = blobs()
    model = LASVMClassifier()
    with pytest.raises(ValueError, match="classes must be passed"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="balanced"):
        LASVMClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="y must hold labels"):
        model.partial_fit(X, y, classes=[0, 1])
    model.partial_fit(X[:20], y[:20], classes=[0, 1, 2])
    before = model.solver_.state()
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="y must hold labels"):
        model.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :1], y)
    assert all(np.array_equal(before[name], array) for name, array in model.solver_.state().items())


def test_without_scikit_learn_it_says_what_is_missing():
    program = "import sys; sys.modules['sklearn.base'] = None; import hinged.sklearn"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Lacking: hinged.sklearn needs the package sklearn" in done.stderr


def test_importing_an_estimator_imports_neither_the_compiler_nor_the_server():
    program = "import sys; from hinged.sklearn import HingedClassifier as H; H().get_params(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"numba", "pydantic"}.isdisjoint(done.stdout.split())


def test_only_public_names_can_be_imported():
    assert set(hinged.sklearn.__all__) == set(dir(hinged.sklearn))
    with pytest.raises(AttributeError, match="has no attribute 'HOME'"):
        hinged.sklearn.HOME  # noqa: B018
    with pytest.raises(ImportError, match="SVCClassifier"):
        from hinged.sklearn import SVCClassifier  # noqa: F401, PLC0415


@pytest.mark.long
def test_a_type_checker_knows_the_public_names_and_refuses_others(tmp_path):
    (tmp_path / "user.py").write_text(
        "from hinged.sklearn import HingedClassifier, SVCClassifier\nHingedClassifier()\n"
    )
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--follow-imports", "silent"]
    done = subprocess.run([*command, str(tmp_path / "user.py")], capture_output=True, text=True, check=False)
    assert 'user.py:1: error: Module "hinged.sklearn" has no attribute "SVCClassifier"' in done.stdout
    assert "Found 1 error in 1 file" in done.stdout


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_module_that_is_imported_later_can_be_copied(copied):
    assert copied(Later("json")).loads("1") == 1
    assert not hasattr(Later("no_such_module"), "__wrapped__")


@pytest.mark.parametrize("estimator", [LASVMClassifier(), hinged.sklearn.OneClassClassifier(), SMOClassifier()])
@pytest.mark.parametrize("X", [[["red"], ["blue"]] * 3, np.array([[1.0, "red"], [2.0, "blue"]] * 3, object)])
def test_strings_are_refused_with_the_estimator_that_takes_them(estimator, X):
    with pytest.raises(ValueError, match=r"takes only numbers: .*'red'.* HingedClassifier also takes strings"):
        estimator.fit(X, [0, 1] * 3)
    fitted = clone(estimator).fit(np.arange(6.0)[:, None], [0, 1] * 3)
    with pytest.raises(ValueError, match="takes only numbers"):
        fitted.predict(X)
