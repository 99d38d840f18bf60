"""Files of fitted estimators, damaged like files of models; and the use of an estimator that was read from a file."""

import contextlib
import copy
import random
import warnings
from functools import cache

import numpy as np
from scipy import sparse

from hinged.frames import decode, encode
from hinged.sklearn import FOGDClassifier, LASVMClassifier, load
from hinged.solvers.estimators.files import KIND
from hinged.solvers.estimators.loading import CLASSIFIERS
from hinged.solvers.warm import warm_up
from tests.faults.fuzz_damage import ODD, OF_AN_ARRAY, changes, damage_array, damage_facts, inside, narrowed, places
from tests.faults.fuzz_scenes import DIM

ESTIMATORS = [*CLASSIFIERS.values()]
TYPES = ("<U1", "<i8", "|O", "|b1", "<f2", "V9", "a", "S3", "<c16", "M8[D]", "f8,f8", "<U99999999", "(9,9)i4", "")
"""Types of labels. A fit uses only the first five."""
LABELS = (["n", "p"], ["n", "p", "q"], [0, 1, 2], [-1.0, 1.0], [False, True])


def rows(draws, m):
    """Return some examples."""
    return draws.standard_normal((m, DIM)).round(2)


@cache
def file_of(number):
    """Return the file of a small estimator, which is different for each number."""
    choices, draws = random.Random(f"estimator {number}"), np.random.default_rng(number)
    made = ESTIMATORS[number % len(ESTIMATORS)](random_state=number % 1000)
    kernels = ["rbf", "laplacian"] + ([] if isinstance(made, FOGDClassifier) else ["linear", "poly"])
    made.set_params(kernel=choices.choice(kernels), scale=choices.choice([None, "auto"]))
    if isinstance(made, LASVMClassifier) and choices.random() < 0.3:
        made.set_params(C="auto")
    for name, value in (("budget", 8), ("frequencies", 10), ("clean_every", 5)):
        if name in made.get_params():
            made.set_params(**{name: value})
    labels = np.array(choices.choice(LABELS))
    if choices.random() < 0.3:
        made.set_params(class_weight={labels[-1].item(): 2.5})
    X = rows(draws, choices.choice([12, 40]))
    X = sparse.csr_array(X) if choices.random() < 0.4 else X
    y = labels[np.arange(X.shape[0]) % len(labels)]
    weighted = hasattr(made, "C") and choices.random() < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if choices.random() < 0.5:
            made.fit(X, y, sample_weight=draws.uniform(0.5, 2.0, len(y)) if weighted else None)
        else:
            made.partial_fit(X, y, classes=labels)
    warm_up(made._learner.name, made.solver_.dtype)  # a server that imports the file does the same
    return made.to_model_file()


def damage_machine(choices, facts, arrays, donor):
    """Change a fact that occurs in several places, in all of them."""
    machine = facts["machine"]
    big = choices.choice([2**20, 2**31, 2**40, 2**52, 2**53 - 1, 2**62 - 50, 2**63 - 1])

    def multiply(names, by):
        for name in names:
            if name in arrays:
                with np.errstate(all="ignore"):
                    arrays[name] = arrays[name] * by

    def costs():
        by = choices.choice([1e-300, 1e-15, 1e3, 1e14, 1e30, 1e308])
        multiply([f"solver.{name}" for name in ("alpha", "lower", "upper", "C")], by)
        machine["parameters"]["C"] *= by

    def numbers():
        machine["learned"] += big
        for name in ("solver.key", "solver.memory_key", "solver.recent_key"):
            if name in arrays:
                values = arrays[name].copy()
                values[values >= 0] += min(big, 2**62)
                arrays[name] = values
        for name in ("solver.seen", "solver.learned", "solver.steps"):
            if name in arrays and arrays[name].size:
                values = arrays[name].copy()
                values.flat[0] = narrowed(int(values.flat[0]) + big, values.dtype)
                arrays[name] = values

    def labels():
        other = [choices.choice(["zz", True, 1, 2**70, "x" * 500, 0.5, 1e300, None]), *machine["labels"][1:]]
        machine["labels"] = other
        facts["labels_type"] = choices.choice([facts["labels_type"], *TYPES])

    def form():
        machine["sparse"] = not machine["sparse"]
        if machine["scale"]:
            machine["scale"]["form"] = "sparse" if machine["sparse"] else "dense"

    def of_a_donor():
        part = choices.choice(["solver.", "scale.", "heard."])
        for name in [name for name in arrays if name.startswith(part)]:
            del arrays[name]
        arrays.update({name: array for name, array in donor[1].items() if name.startswith(part)})
        if part == "scale.":
            machine["scale"] = copy.deepcopy(donor[0]["machine"]["scale"])

    def another_class():
        facts["estimator"] = donor[0]["estimator"]
        if choices.random() < 0.5:
            facts["parameters"] = copy.deepcopy(donor[0]["parameters"])
        if choices.random() < 0.5:
            facts["machine"] = copy.deepcopy(donor[0]["machine"])

    how = choices.choice([costs, numbers, labels, form, of_a_donor, another_class])
    how()
    return f"{how.__name__} by {big}"


DAMAGES = (damage_array, damage_array, damage_array, damage_facts, damage_machine)


def damaged_file(choices):
    """Return the changed file of a case, and the changes."""
    at = choices.randrange(20 * len(ESTIMATORS))
    other = choices.randrange(20 * len(ESTIMATORS))
    if choices.random() < 0.5:  # a donor of the same class
        other = at % len(ESTIMATORS) + len(ESTIMATORS) * (other // len(ESTIMATORS))
    facts, arrays = decode(file_of(at), KIND)
    donor = decode(file_of(other), KIND)
    told = [f"estimator {at} {facts['estimator']}"]
    for _ in range(choices.choice([1, 1, 1, 2, 3])):
        try:
            told.append(choices.choice(DAMAGES)(choices, facts, arrays, donor))
        except (KeyError, TypeError, IndexError, ValueError, OverflowError, AttributeError) as error:
            told.append(f"not changed: {error!r}")  # an earlier change removed what this change needs
    return encode(KIND, facts, arrays), told


def each_part_wrong(number, choices):
    """Yield for each part of the facts and each array a file in which only this part is changed, and the change.

    A part is replaced by something odd; an array gets another type, shape, order or range.
    """
    facts, arrays = decode(file_of(number), KIND)
    for path in places(facts):
        odd, other = choices.choice(ODD), copy.deepcopy(facts)
        inside(other, path[:-1])[path[-1]] = copy.deepcopy(odd)
        with contextlib.suppress(ValueError):  # no frame can contain this part
            yield encode(KIND, other, arrays), f"{facts['estimator']} {path}: {odd!r:.60}"
    for name, array in sorted(arrays.items()):
        with contextlib.suppress(ValueError, IndexError):  # this damage does not apply to the array
            damaged = choices.choice(OF_AN_ARRAY)(choices, array)
            yield encode(KIND, facts, {**arrays, name: damaged}), f"{name}: {changes(array, damaged)}"


def live(data, choices):
    """Return whether this file is read as an estimator. If so, the estimator predicts, learns, and is written and read
    again.

    Unlike an import, `load` does not rehearse. Numbers near their limits may exceed the limits as the estimator learns.
    That may raise ValueError, but no other error.
    """
    try:
        estimator = load(data)
    except ValueError:
        return False
    draws = np.random.default_rng(choices.randrange(2**30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _same_again(estimator, draws, choices)
        with contextlib.suppress(ValueError):
            for _ in range(3):
                X = _rows_of(estimator, draws, choices)
                estimator.partial_fit(X, estimator.classes_[draws.integers(0, len(estimator.classes_), len(X))])
                _same_again(estimator, draws, choices)
    return True


def _rows_of(estimator, draws, choices):
    X = rows(draws, choices.choice([1, 5, 20]))[:, : estimator.n_features_in_]
    return np.pad(X, ((0, 0), (0, max(0, min(estimator.n_features_in_, 10_000) - X.shape[1]))))


def _same_again(estimator, draws, choices):
    X = _rows_of(estimator, draws, choices)
    estimator.predict(X)
    again = load(estimator.to_model_file()).decision_function(X)
    assert np.array_equal(again, estimator.decision_function(X), equal_nan=True), "it is read as another estimator"
