"""Fourier online gradient descent (Lu, Hoi, Wang, Zhao and Liu, JMLR 17, 2016, algorithm 1).

The solver does online gradient descent on weights of random Fourier features (Rahimi and Recht, NIPS 20, 2007):

    z(x) = D^-1/2 (cos(omega_1.x), .., cos(omega_D.x), sin(omega_1.x), .., sin(omega_D.x)),   f(x) = w.z(x)

z(x).z(x') has the mean k(x, x') if omega is drawn from the kernel's Fourier transform: normal with variance 2 gamma for
the RBF kernel, Cauchy with scale gamma for the Laplacian, independently for each input feature. The paper omits D^-1/2.
With this factor, the learning rate of OGD is suitable for any D. There is no bias, and there are no points.

omega  (dim, D) float32 or float64  drawn from the seed, shared by all columns.
w      (K, 2D) float64              weights of each column.
counts (3,) int64                   0 points, steps, examples learned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from hinged.solvers.core import turns
from hinged.solvers.core.coefficients import sign_of
from hinged.solvers.core.counts import LEARNED, STEPS
from hinged.solvers.core.elementary import (
    ANGLE_MOST,
    angle_within,
    cosine_and_sine,
    log,
)
from hinged.solvers.core.families import LAPLACIAN, NAME_OF, RBF
from hinged.solvers.core.kernels import (
    Kernel,
    inner_columns,
)
from hinged.solvers.core.random import next_random
from hinged.solvers.core.reports import Certificate, certificate_of
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.core.solver import UNBOUNDED, Solver, columns_of
from hinged.solvers.core.states import COEFFICIENT_MAX, COUNT_MAX, REACHED_MAX, State, StateReader, check_learned
from hinged.solvers.jit.compiled import compiled
from hinged.solvers.online.rules import ETA_MAX

Array = np.ndarray[Any, Any]

COSINE_WORK = 40  # work of a feature's cosine or sine, or of drawing a frequency
DRAWS_MAX = 2**26
"""Maximum number of entries of omega: half a gigabyte in float64."""


TRANSFORMED = (RBF, LAPLACIAN)
"""Kernels from whose Fourier transform `draw_omega` can draw."""
KERNELS_OF_FOGD = tuple(NAME_OF[code] for code in TRANSFORMED)


@compiled
def uniform(random):
    """Return a uniform number in (0, 1), from 52 random bits."""
    return (np.float64(next_random(random) >> np.uint64(12)) + 0.5) * 2.0**-52


@compiled
def draw_omega(kernel, random, omega):
    """Fill omega (dim, D) from the Fourier transform of the kernel."""
    for f in range(omega.shape[0]):
        for j in range(omega.shape[1]):
            u = uniform(random)
            if kernel.code == LAPLACIAN:
                cosine, sine = cosine_and_sine(math.pi * (u - 0.5))
                omega[f, j] = kernel.gamma * (sine / cosine)
            else:  # method of Box and Muller
                radius = math.sqrt(-4.0 * kernel.gamma * log(u))
                omega[f, j] = radius * cosine_and_sine(2.0 * math.pi * uniform(random))[0]


@compiled
def fourier(omega, indices, values, z):
    """Compute z (2D,) = z(x) of a sparse row."""
    D = omega.shape[1]
    scale = 1.0 / math.sqrt(D)
    inner_columns(False, indices, values, omega, 0, D, z)
    cosines, sines = z[:D], z[D:]
    wild = False
    for j in range(D):
        wild |= not abs(cosines[j]) <= ANGLE_MOST
    if wild:
        for j in range(D):  # products of huge numbers overflow
            cosines[j] = angle_within(np.float64(cosines[j]))
    for j in range(D):
        cosine, sine = cosine_and_sine(np.float64(cosines[j]))
        cosines[j], sines[j] = cosine * scale, sine * scale


@compiled
def decide_features(omega, w, indptr, indices, values, scores):
    """Compute scores (m, K) = w.z(row) for each row of a batch and each column."""
    z = np.empty(w.shape[1], values.dtype)
    for r in range(scores.shape[0]):
        fourier(omega, indices[indptr[r] : indptr[r + 1]], values[indptr[r] : indptr[r + 1]], z)
        for c in range(w.shape[0]):
            scores[r, c] = dot(w[c], z)


@compiled
def learn_features(omega, w, counts, eta, weights, seen, indptr, indices, values, classes, again, scores):
    """Learn a batch: w <- w + eta y z(x) if y f(x) <= 1. Arguments: as in dual/lasvm.py."""
    z = np.empty(w.shape[1], values.dtype)
    for r in range(classes.shape[0]):
        own = classes[r]
        if not again:
            seen[own] += 1
            counts[LEARNED] += 1
        fourier(omega, indices[indptr[r] : indptr[r + 1]], values[indptr[r] : indptr[r + 1]], z)
        for c in range(w.shape[0]):
            y = sign_of(own, c, w.shape[0])
            scores[r, c] = dot(w[c], z)
            if y * scores[r, c] <= 1.0:
                counts[STEPS] += 1
                step = y * eta * weights[own]
                for j in range(w.shape[1]):
                    w[c, j] += step * z[j]


def parts_of(rows: Rows, w: Array) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of parts of a batch, each small enough for one call that computes features."""
    m, (columns, features) = len(rows), w.shape
    at_once = turns.portion(features * (COSINE_WORK + columns + int(rows.indptr[-1]) / max(m, 1)))
    return ((begin, min(begin + at_once, m)) for begin in range(0, m, at_once))


@dataclass(frozen=True, slots=True)
class FeatureView:
    """The frequencies, and a copy of the weights."""

    omega: Array
    w: Array
    delta: Array

    @property
    def size(self) -> int:
        """Number of features computed per row."""
        return int(self.w.shape[1])

    @property
    def gathered(self) -> int:
        """As in `View`: there are no points."""
        return 0

    def decision(self, rows: Rows) -> Array:
        """Return the decision values (m, K) of a batch."""
        scores = np.empty((len(rows), self.w.shape[0]))
        for begin, end in parts_of(rows, self.w):
            decide_features(
                self.omega, self.w, rows.indptr[begin : end + 1], rows.indices, rows.values, scores[begin:end]
            )
            turns.rest()
        return scores


class FOGD(Solver):
    """Online gradient descent on random Fourier features, for RBF and Laplacian kernels. Other parameters: `Solver`.

    frequencies: D, from 1, with D dim at most 2^26. eta: learning rate, > 0.
    """

    forgets = False

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        frequencies: Annotated[int, Ge(1), Lt(2**31), "number of random frequencies; each gives two features"] = 1000,
        eta: Annotated[float, Gt(0), Le(ETA_MAX), "learning rate"] = 0.2,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        if kernel.code not in TRANSFORMED:
            raise ValueError(f"kernel must be {' or '.join(KERNELS_OF_FOGD)}: only these have random Fourier features")
        if frequencies > DRAWS_MAX // dim:
            raise ValueError(f"frequencies times dim must be at most {DRAWS_MAX}, got {frequencies} * {dim}")
        self.eta = float(eta)
        self.frequencies = int(frequencies)
        self.w = np.zeros((0, 2 * self.frequencies))
        self.counts = np.zeros(3, np.int64)
        self.omega = self._drawn(self.random)

    def _drawn(self, random: Array) -> Array:
        omega = np.empty((self.dim, self.frequencies), self.dtype)
        random, at_once = random.copy(), turns.portion(self.frequencies * COSINE_WORK)
        for f in range(0, self.dim, at_once):
            draw_omega(self.kernel, random, omega[f : f + at_once])
            turns.rest()
        return omega

    def _add_columns(self, classes: int) -> None:
        old, self.w = self.w, np.zeros((columns_of(classes), 2 * self.frequencies))
        self.w[: len(old)] = old
        if len(old) == 1:
            self.w[0], self.w[1] = 0.0 - old[0], old[0]

    @property
    def live(self) -> int:
        """Number of points: 0."""
        return 0

    @property
    def room(self) -> int:
        """Number of examples that fit: any number."""
        return UNBOUNDED

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Learn a batch in order (Solver.learn)."""
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = np.empty((len(rows), self.columns))
        for begin, end in parts_of(rows, self.w):
            learn_features(
                self.omega, self.w, self.counts, self.eta, self.factors, self.seen,
                rows.indptr[begin : end + 1], rows.indices, rows.values, classes[begin:end], again, scores[begin:end],
            )  # fmt: skip
            turns.rest()
        return scores

    def drop(self, keys: Array) -> None:
        """Do nothing, because the solver stores nothing of single examples."""

    def view(self) -> FeatureView:
        """Return the state in a form that predictions can read while learning continues."""
        return FeatureView(self.omega, self.w.copy(), np.zeros(self.columns))

    def certificate(self) -> Certificate:
        """Return only the steps, because there are no points and no kernel values."""
        return certificate_of(support_vectors=0, points=0, kernel_evaluations=0, steps=int(self.counts[STEPS]))

    def memory_bytes(self) -> int:
        """Return the memory of frequencies and weights, in bytes."""
        return self.omega.nbytes + self.w.nbytes

    def state(self) -> State:
        """Return everything that the next prediction or update depends on. `load` draws omega again from `random`."""
        kept = {name: getattr(self, name).copy() for name in ("w", "seen", "weights", "random")}
        return {**kept, "counts": self.counts[STEPS:].copy()}

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        checked = StateReader(state)
        seen, weights = self._read_seen(checked)
        random = checked.take("random", np.uint64, (1,))
        counts = np.append(0, checked.take("counts", np.int64, (2,), 0, COUNT_MAX))
        check_learned(seen, int(counts[LEARNED]))
        shape = columns_of(seen.size), 2 * self.frequencies
        w = checked.take("w", np.float64, shape, -COEFFICIENT_MAX, COEFFICIENT_MAX)
        if random[0] != self.random[0]:
            self.omega = self._drawn(random)
        self.w, self.counts, self.seen, self.weights, self.random = w, counts, seen, weights, random

    def examine(self) -> None:
        """Refuse a state that learning cannot reach (Solver.examine): weights that would soon overflow."""
        super().examine()
        if np.abs(self.w).max(initial=0.0) > REACHED_MAX:
            raise ValueError(f"w must be within {REACHED_MAX:g}, got {np.abs(self.w).max():g}")
