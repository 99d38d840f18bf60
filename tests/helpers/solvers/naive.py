"""Plain loops that compute the same as the compiled solvers, for comparison. Slow and obvious."""

import math

import numpy as np
from scipy.optimize import lsq_linear


def kernel_value(name, x, z, gamma=1.0, degree=3, coef0=0.0):
    dot = sum(a * b for a, b in zip(x, z, strict=True))
    if name == "linear":
        return dot
    if name == "polynomial":
        return (gamma * dot + coef0) ** degree
    if name == "rbf":
        return math.exp(-gamma * sum((a - b) ** 2 for a, b in zip(x, z, strict=True)))
    return math.exp(-gamma * sum(abs(a - b) for a, b in zip(x, z, strict=True)))


class NaiveTracking:
    """One column of averaged tracking as in the paper's listing; no K_ii is 0.

    slots: the example in each slot, None if it was removed. draw: (slots in use) -> a slot. alpha, average:
    dictionaries from examples. draws, delta_max, before: extensions that the paper does not have (tracking.py).
    """

    def __init__(self, K, y, C, updates, algorithm, draw, draws=1, delta_max=None, before=1000):
        self.K, self.y, self.C, self.updates, self.algorithm, self.draw = K, y, C, updates, algorithm, draw
        self.draws, self.delta_max, self.before = draws, delta_max, before
        self.slots, self.alpha, self.average = [], {}, {}

    def decision(self, alpha, k):
        return sum(alpha[s] * self.K[s, k] for s in alpha)

    def gradient(self, i):
        return self.y[i] - self.decision(self.alpha, i)

    def box(self, i):
        return min(0.0, self.C * self.y[i]), max(0.0, self.C * self.y[i])

    def target(self, i):
        lower, upper = self.box(i)
        return min(max(self.alpha[i] + self.gradient(i) / self.K[i, i], lower), upper)

    def update(self, i):
        self.alpha[i] = self.target(i)

    def stays(self, i):
        return self.algorithm == "cached" and self.alpha[i] == 0.0

    def gain(self, i):
        step = 0.0 if self.stays(i) else self.target(i) - self.alpha[i]
        return step * (self.gradient(i) - step * self.K[i, i] / 2)

    def drawn(self):
        found = []
        while len(found) < self.draws:
            i = self.slots[self.draw(len(self.slots))]
            found += [i] if i is not None else []
        gains = {i: self.gain(i) for i in set(found)}
        return max(found, key=gains.__getitem__)  # of equal slots the first

    def violates(self, i):
        g, (lower, upper) = self.gradient(i), self.box(i)
        rises, falls = self.alpha[i] < upper and g > self.delta_max, self.alpha[i] > lower and -g > self.delta_max
        return not self.stays(i) and (rises or falls)

    def drop(self, i):
        del self.alpha[i]
        self.slots[self.slots.index(i)] = None

    def learn(self, k):
        score = self.decision(self.average, k)
        cached = self.algorithm == "cached"
        if cached:
            for i in [i for i in self.alpha if self.alpha[i] == 0.0]:
                self.drop(i)
        self.slots.append(k)
        self.alpha[k] = 0.0
        if self.algorithm != 1:
            self.update(k)
        if cached and self.alpha[k] == 0.0:
            self.drop(k)
            self.slots.pop()
        for _ in range(self.before if self.alpha and self.delta_max is not None else 0):
            i = self.drawn()
            if not self.violates(i):
                break
            self.update(i)
        iterates = []
        for _ in range(self.updates if self.alpha else 0):
            i = self.drawn()
            if not self.stays(i):
                self.update(i)
            iterates.append(dict(self.alpha))
        self.average = {i: sum(a[i] for a in iterates) / self.updates for i in self.alpha}
        return score


NEAR = 1e-9


class NaiveLASVM:
    """One column of LASVM as in the paper's listing, one example at a time from a given state.

    After a free step g_i = g_j up to rounding. So rounding determines which of two equal extremes is next, and with it
    the rest of the run. Therefore a step has several right outcomes, one for each choice between extremes that are
    equal within NEAR. `outcomes` lists them all. alpha and g are dictionaries over S.
    """

    def __init__(self, K, y, C, tol, delta_max=math.inf):
        self.K, self.y, self.C, self.tol, self.delta_max = K, y, C, tol, delta_max

    def lower(self, s):
        return min(0.0, self.C * self.y[s])

    def upper(self, s):
        return max(0.0, self.C * self.y[s])

    def extremes(self, alpha, g):
        up = {s: g[s] for s in g if alpha[s] < self.upper(s)}
        down = {s: g[s] for s in g if alpha[s] > self.lower(s)}
        return (
            [s for s in up if up[s] > max(up.values()) - NEAR],
            [s for s in down if down[s] < min(down.values()) + NEAR],
        )

    def bias(self, alpha, g):
        i, j = self.extremes(alpha, g)
        if i and j:
            return (g[i[0]] + g[j[0]]) / 2, g[i[0]] - g[j[0]]
        return g[(i or j)[0]], 0.0

    def search(self, alpha, g, i, j):
        alpha, g = dict(alpha), dict(g)
        curvature = self.K[i, i] + self.K[j, j] - 2 * self.K[i, j]
        room_i, room_j = self.upper(i) - alpha[i], alpha[j] - self.lower(j)
        step = min(room_i, room_j)
        if curvature > 0:
            step = min(step, (g[i] - g[j]) / curvature)
        # A move that reaches the box sets the bound exactly.
        alpha[i] = self.upper(i) if step >= room_i else alpha[i] + step
        alpha[j] = self.lower(j) if step >= room_j else alpha[j] - step
        for s in g:
            g[s] -= step * (self.K[i, s] - self.K[j, s])
        return alpha, g

    def outcomes(self, alpha, g, k):
        """Return every right (alpha, g) of PROCESS(k) and REPROCESS, before the removal step."""
        f = sum(alpha[s] * self.K[s, k] for s in alpha)
        alpha, g = {**alpha, k: 0.0}, {**g, k: self.y[k] - f}
        i, j = self.extremes(alpha, g)
        i, j = ([k], j) if self.y[k] > 0 else (i, [k])
        return [end for start in self._each(alpha, g, i, j) for end in self._reprocessed(*start)]

    def _each(self, alpha, g, i, j):
        pairs = [(a, b) for a in i for b in j if g[a] - g[b] > self.tol]
        return [self.search(alpha, g, a, b) for a, b in pairs] or [(alpha, g)]

    def _reprocessed(self, alpha, g):
        i, j = self.extremes(alpha, g)
        if not (i and j and g[i[0]] - g[j[0]] > self.tol):
            return [(alpha, g)]
        ends = []
        for moved in self._each(alpha, g, i, j):
            ends += [moved] if self.bias(*moved)[1] <= self.delta_max else self._reprocessed(*moved)
        return ends

    def blatant(self, alpha, g, s):
        """Return how far s, with alpha_s = 0, is beyond the extreme that allows its removal; else negative."""
        i, j = self.extremes(alpha, g)
        if alpha[s] != 0:
            return -math.inf
        if self.y[s] < 0:
            return g[s] - g[i[0]] if i else math.inf
        return g[j[0]] - g[s] if j else math.inf


def gram(name, X, **parameters):
    return np.array([[kernel_value(name, x, z, **parameters) for z in X] for x in X])


def box_optimum(K, y, lower, upper):
    """Return the alpha that maximises alpha.y - 1/2 alpha.K.alpha over a box, by an active-set method.

    K must not be singular.
    """
    root = np.linalg.cholesky(K).T
    return lsq_linear(root, np.linalg.solve(root.T, y), (lower, upper), method="bvls", tol=1e-15, max_iter=10_000).x


def balanced_optimum(K, y, lower, upper, tol=1e-11, steps=200_000):
    """Return the alpha of `box_optimum` subject to sum(alpha) = 0, and the ends of b's interval.

    The search starts from zero and moves pairs. K may be singular. A pair is the point with the largest gradient that
    may rise, and the partner with which it gains most. Where K has little curvature, pairs move slowly, so now and then
    all coefficients that are off their bounds move at once.
    """
    alpha, g, diagonal = np.zeros(len(y)), np.array(y, float), np.diag(K)
    for number in range(1, steps):
        if number % 100 == 0:
            move_face(K, y, alpha, lower, upper)
            g = y - K @ alpha
        up, down = np.flatnonzero(alpha < upper), alpha > lower
        i = up[g[up].argmax()] if up.size else 0
        lead = np.where(down, g[i] - g, 0.0)
        if not up.size or lead.max() <= tol:
            # A coefficient that is off its bound only by rounding does not determine b.
            rises, falls = g[alpha < upper - 1e-9], g[alpha > lower + 1e-9]
            return alpha, (rises.max(initial=-np.inf), falls.min(initial=np.inf))
        curvature = np.maximum(K[i, i] + diagonal - 2 * K[i], 1e-12)
        j = np.where(lead > 0, lead**2 / curvature, 0.0).argmax()
        room_i, room_j = upper[i] - alpha[i], alpha[j] - lower[j]
        step = min(room_i, room_j, lead[j] / curvature[j])
        # A move that reaches the box sets the bound exactly.
        alpha[i] = upper[i] if step == room_i else alpha[i] + step
        alpha[j] = lower[j] if step == room_j else alpha[j] - step
        g -= step * (K[i] - K[j])
    raise AssertionError(f"no optimum after {steps} steps")


def move_face(K, y, alpha, lower, upper):
    """Move all coefficients off their bounds to their optimum or, without curvature, as far as the box allows."""
    free = np.flatnonzero((alpha > lower) & (alpha < upper))
    ones = np.ones((free.size, 1))
    system = np.block([[K[np.ix_(free, free)], ones], [ones.T, np.zeros((1, 1))]])
    wanted = np.append((y - K @ alpha)[free], 0.0)
    found = np.linalg.lstsq(system, wanted, rcond=1e-12)[0]
    flat = (wanted - system @ found)[: free.size]
    way, longest = (flat, np.inf) if np.abs(flat).max(initial=0.0) > 1e-9 else (found[: free.size], 1.0)
    ends = np.where(way > 0, upper[free], lower[free])
    with np.errstate(divide="ignore", invalid="ignore"):
        rooms = np.where(way != 0, (ends - alpha[free]) / way, np.inf)
    step = min(longest, rooms.min(initial=np.inf))
    if np.isfinite(step):
        alpha[free] = np.where(rooms <= step, ends, alpha[free] + step * way)


def right_decisions(K, y, C, held, asked):
    """Return the least and the largest right decision value at `asked` of an SVM of the examples `held`.

    C (n,): by example. The two values differ if no coefficient is free: then any b between two ends is optimal. With
    one class, only the sign of b is determined.
    """
    bound = C[held] * y[held]
    part = K[np.ix_(held, held)]
    alpha, ends = balanced_optimum(part, y[held], np.minimum(bound, 0.0), np.maximum(bound, 0.0))
    if np.unique(y[held]).size == 1:
        ends = (0.0, np.inf) if y[held][0] > 0 else (-np.inf, 0.0)
    return [alpha @ K[np.ix_(held, asked)] + end for end in ends]
