"""Digests of everything that the solvers compute, which are the same on every processor (tests/solvers/test_bits.py).

As a program, it prints the digests as JSON:

    PYTHONPATH=.:tests/solvers .venv/bin/python -m tests.solvers.digests > tests/solvers/digests.json
"""

import hashlib
import json
import sys

import numpy as np

from hinged.service.data.features.vocabulary import Vocabulary
from hinged.solvers.catalogue import SOLVERS, make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_csr, rows_from_dense
from hinged.solvers.estimators.scaling import DENSE, SPARSE, found
from hinged.solvers.scores.calibrations import Calibrations
from hinged.solvers.scores.selection import informativeness, is_wanted
from hinged.solvers.scores.sigmoid import Sigmoid
from hinged.solvers.scores.tally import Tally, losses_of

DIM, EXAMPLES, BATCH, CLASSES = 9, 150, 50, 3
WIDE = 2**21  # number of features for which a point store creates no columns
KERNELS = {
    "linear": make_kernel("linear"),
    "polynomial": make_kernel("polynomial", 0.5, 3, 1.0),
    "rbf": make_kernel("rbf", 0.5),
    "laplacian": make_kernel("laplacian", 0.3),
}
ONLY = {"bsca": ["rbf"], "bsgd": ["rbf"], "fogd": ["rbf", "laplacian"]}  # the only kernels that these solvers have
RAMP = {"ramp_start": 5}
PAPER = {"delta_max": None, "idle_max": 0, "delta_min": 0}
EVERY = {"delta_min": 0}
RAMP_EVERY = RAMP | EVERY
PAPER_TRACKING = {"draws": 1, "delta_max": None}
FORMER = {"nearest": 3}
FORMER_RACES = [{"rules": 2}, {"rules": 3}, {"rules": 4}]
VARIANTS = [
    *((name, RAMP if name in ("lasvm-nc", "lasvm-i") else {}) for name in SOLVERS),
    ("lasvm", PAPER),
    ("lasvm", EVERY),
    ("lasvm-g", EVERY),
    ("full", EVERY),
    ("lasvm-nc", RAMP_EVERY),
    ("lasvm-i", RAMP_EVERY),
    *((f"tracking-{algorithm}", PAPER_TRACKING) for algorithm in (1, 2, "cached")),
    ("lasvm", {"second_order": True, **EVERY}),
    ("lasvm", {"dtype": np.float64, **EVERY}),
    ("bsca", FORMER),
    ("bsgd", FORMER),
    ("bsca", {"maintenance": "project"}),
    ("bsca", {"merging": "golden"}),
    ("bsca", {"merging": "golden", **FORMER}),
    ("bsgd", {"maintenance": "remove"}),
    *(("auto", rules) for rules in FORMER_RACES),
]


def examples(kind, n=EXAMPLES, seed=0):
    """Return rows (n, DIM) and classes, from integers and divisions by powers of two, with the same bits everywhere."""
    random = np.random.default_rng(seed)
    X = random.integers(-2048, 2049, (n, DIM)) / 1024.0
    classes = (X[:, 0] * X[:, 1] > 0).astype(int)
    classes[X[:, 2] > 1] = 2
    noise = random.integers(0, 10, n)
    classes = np.where(noise == 0, random.integers(0, CLASSES, n), classes)
    if kind == "ones":
        X = (X > 0.25).astype(float)
    if kind == "sparse":
        X[random.integers(0, 3, X.shape) > 0] = 0.0
    return X, classes


def rows_of(X, kernel, dtype, *, wide):
    if not wide:
        return rows_from_dense(X, kernel, DIM, dtype)
    filled = X != 0
    places = np.arange(DIM) * 1009 % WIDE
    indptr = np.concatenate(([0], np.cumsum(filled.sum(axis=1))))
    return rows_from_csr(indptr, np.concatenate([places[row] for row in filled]), X[filled], kernel, WIDE, dtype)


def learned(digest, name, parameters, kernel, kind):
    """Add to the digest all answers of a solver while it learns, finishes and forgets, and its states."""
    X, classes = examples(kind)
    wide = kind == "sparse"
    entry = SOLVERS[name]
    dim = WIDE if wide else DIM
    solver = make_solver(name, kernel, dim, **{"C": 4.0, **entry.trial, **parameters, **entry.fixed})
    for _ in range(CLASSES):
        solver.add_class()
    for b in range(0, EXAMPLES, BATCH):
        rows = rows_of(X[b : b + BATCH], kernel, solver.dtype, wide=wide)
        put(digest, solver.learn(rows, classes[b : b + BATCH], np.arange(b, b + BATCH)))
    put_all(digest, solver.state())
    solver.finish()
    solver.drop(np.arange(0, EXAMPLES, 7))
    put(digest, solver.decision(rows_of(X, kernel, solver.dtype, wide=wide)))
    put_all(digest, solver.state())


def put(digest, array):
    digest.update(np.ascontiguousarray(array).tobytes())


def put_all(digest, state):
    for name, array in sorted(state.items()):
        digest.update(name.encode())
        put(digest, array)


def of_solver(name, parameters):
    digest = hashlib.sha256()
    names = ONLY.get(name, list(KERNELS))
    every = ({}, RAMP, PAPER, EVERY, RAMP_EVERY, PAPER_TRACKING, FORMER, *FORMER_RACES)
    for kernel in names if parameters in every else ["rbf"]:
        learned(digest, name, parameters, KERNELS[kernel], "dense")
    if (
        parameters in ({}, PAPER, EVERY, PAPER_TRACKING, FORMER, *FORMER_RACES) and name != "fogd"
    ):  # one frequency has as many numbers as a row
        learned(digest, name, parameters, KERNELS["rbf"], "ones")
        learned(digest, name, parameters, KERNELS[names[-1]], "sparse")
    return digest.hexdigest()[:16]


def of_angles():
    """Return the digest of FOGD with extremely large angles."""
    digest = hashlib.sha256()
    solver = make_solver("fogd", KERNELS["laplacian"], DIM, frequencies=50, dtype=np.float64)
    solver.add_class()
    X, _ = examples("dense")
    rows = rows_from_dense(X * 2.0**60, KERNELS["laplacian"], DIM, np.float64)
    solver.learn(rows, np.zeros(len(X), int), np.arange(len(X)))
    put_all(digest, solver.state())
    return digest.hexdigest()[:16]


def of_probabilities():
    """Return the digest of sigmoids, losses, and the selection of examples to label."""
    digest = hashlib.sha256()
    X, classes = examples("dense", 1500)
    columns, numbers = np.ascontiguousarray(X[:, :CLASSES]), classes.astype(np.int32)
    sigmoid, tally = Sigmoid(), Tally(CLASSES)
    sigmoid.widen(1)
    sigmoid.learn(columns[:20, :1], numbers[:20] % 2)
    sigmoid.widen(CLASSES)
    probabilities = sigmoid.learn(columns, numbers)
    losses = losses_of(probabilities, numbers)
    tally.add(np.arange(len(X)), columns, columns.argmax(axis=1).astype(np.int32), numbers, losses)
    put_all(digest, sigmoid.state())
    put_all(digest, tally.state())
    put(digest, probabilities)
    tied = np.rint(columns)
    put(digest, is_wanted(tied, np.array([0.0, 0.5, 3.0])))
    put(digest, informativeness("active", tied))
    return digest.hexdigest()[:16]


def of_calibrations():
    """Return the digest of the calibrations of several classes, and of the choice between them."""
    digest = hashlib.sha256()
    X, classes = examples("dense", 1500)
    numbers = np.where(classes == 0, X.argmax(axis=1), classes).astype(np.int32)
    calibrations = Calibrations()
    calibrations.widen(1)
    calibrations.learn(X[:200, :1], numbers[:200] % 2)
    calibrations.widen(DIM)
    put(digest, calibrations.learn(X, numbers))
    put_all(digest, calibrations.state())
    return digest.hexdigest()[:16]


def of_names():
    """Return the digest of the columns and gammas of named features."""
    digest = hashlib.sha256()
    X, _ = examples("dense", 500)
    vocabulary = Vocabulary(len(X), 50)
    vocabulary.observe([dict(zip("abcdefghi", (row / 3.0).tolist(), strict=True)) for row in X])
    for part in vocabulary.freeze():
        put(digest, part)
    kernels = ("rbf", "laplacian", "polynomial")
    put(digest, np.array([vocabulary.spread.gamma(kernel, former=True) for kernel in kernels]))
    return digest.hexdigest()[:16]


def of_words():
    """Return the digest of the columns of dates and of texts."""
    digest = hashlib.sha256()
    X, _ = examples("dense", 200)
    kinds = {"when": "time", "note": "text"}
    vocabulary = Vocabulary(len(X) // 2, 50, kinds, since=None)
    records = [
        {
            "note": f"{row[0]:.1f} {row[1]:.1f} of {row[0]:.1f}",
            "when": f"2026-{1 + k % 12:02}-{1 + k % 28:02}T{k % 24:02}:07",
        }
        for k, row in enumerate(X.tolist())
    ]
    vocabulary.observe(records[: len(X) // 2])
    for part in (*vocabulary.freeze(), *vocabulary.encode(records[len(X) // 2 :])):
        put(digest, part)
    return digest.hexdigest()[:16]


def of_scales():
    """Return the digest of scales of dense and sparse features: with a heavy tail, two values, or one value."""
    digest = hashlib.sha256()
    X, _ = examples("dense", 500)
    X = X.astype(np.float64)
    X[:, 1] *= 1e6 * X[:, 1] * X[:, 1]
    X[:, 2], X[:, 3] = X[:, 2] > 0, 7.0
    indptr = np.arange(0, X.size + 1, DIM)
    for form in (DENSE, SPARSE):
        scale = found(form, (indptr, np.tile(np.arange(DIM), len(X)), X.ravel()), DIM)
        put_all(digest, {part: getattr(scale, part) for part in ("columns", "middle", "unit", "mean", "scale")})
        for part in scale.rows((indptr, np.tile(np.arange(DIM), len(X)), X.ravel() / 3.0)):
            put(digest, part)
    return digest.hexdigest()[:16]


def digests():
    every = {}
    for name, parameters in VARIANTS:
        title = " ".join([name, *(f"{k}={getattr(v, '__name__', v)}" for k, v in parameters.items())])
        every[title] = of_solver(name, parameters)
    rest = {"angles": of_angles(), "probabilities": of_probabilities(), "names": of_names(), "scales": of_scales()}
    return every | rest | {"words": of_words(), "calibrations": of_calibrations()}


if __name__ == "__main__":
    json.dump(digests(), sys.stdout, indent=1)
    print()
