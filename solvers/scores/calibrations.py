"""Several calibrations for three or more classes. The calibration with the lowest recent loss answers.

Each calibration computes probabilities from the decision values f (K,) of an example:

    sigmoids      p_c ~ 1 / (1 + exp(A_c f_c + B_c)): Platt's, one per column (sigmoid.py)
    temperature   p_c ~ exp(a f_c)
    vector        p_c ~ exp(a_c f_c + b_c)

Temperature and vector scaling: C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, On Calibration of Modern Neural
Networks, ICML 2017, section 4.2. Over the newest FITTED examples, in units of s, the root mean square of their scores,

    a          minimises   -sum_i sum_c t_ic log p_ic + RIDGE s^2 a^2 / 2
    a_c, b_c   minimise    -sum_i sum_c t_ic log p_ic + sum_c (s^2 (a_c - a)^2 + b_c^2) / 2

where t_i is the class of example i, smoothed by 1 part in n + 1 over all classes. Whenever the fits are due, each fit
takes one step: a Newton step for a, and for the pairs (a_c, b_c) the Newton step of a quadratic that is an upper bound
of the loss. For any u (K,) the curvature is sum_c p_c u_c^2 - (sum_c p_c u_c)^2, which is the sum over pairs of p_c p_d
(u_c - u_d)^2. The curvature is at most 2 sum_c p_c (1 - p_c) u_c^2. So the classes separate, with 2 x 2 matrices.

The fits are due whenever BLOCK examples are new, or a tenth of the examples since there are three columns. Before each
fit, all three calibrations are judged on the new examples, on which none of them was fitted. Their losses fade by
FADING per example. Another calibration takes over once its loss is lower by AHEAD.

fits     (3, K, 2) float64      A, B of each column; -a_c and -b_c of a softmax. The sigmoids' fits are copies.
losses   (3, 2) float64         log loss and Brier score, fading.
gaps     (3, K, BINS) float64   a class's probabilities minus its examples, by tenths of the probability, fading.
weight   (1,) float64           weight of all examples judged.
answers  (1,) int64             the calibration that answers.
since    (1,) int64             number of examples learned when the third column was added.
judged   (1,) int64             number of examples learned when the fits were last due.
due      (1,) int64             number of examples at which the fits are due again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.states import State, StateReader
from hinged.solvers.scores.sigmoid import FIT_MAX, Calibration, Sigmoid, softmax_of
from hinged.solvers.scores.tally import LOG_LOSS, LOSS_MAX, losses_of

Array = np.ndarray[Any, Any]

SIGMOIDS, TEMPERATURE, VECTOR = range(3)
NAMES = ("sigmoids", "temperature", "vector")
FIGURES = ("log_loss", "brier", "classwise_error")
COLUMNS = 3  # minimum number of columns for a choice of calibrations
FITTED = 500  # newest examples of a fit: older scores would mislead it, because models on a budget change fast
RIDGE = 1e-3
FARTHEST = 8.0  # largest factor by which a step may change the temperature: Newton's method diverges where p is 0 or 1
LEAST = 1e-6  # minimum of a s, at which all classes are equally likely
FADING = 0.995
AHEAD = 1.0  # nats by which a calibration's fading loss must be lower to take over; the fading loss covers 200 examples
UNJUDGED = 20  # number of examples for the first fits, before any judging
BINS = 10
BLOCK = 200  # maximum number of examples judged together

WEIGHT_MAX = 1.001 / (1.0 - FADING)  # limit of the weights of all examples, with some room for rounding
OF_ALL = ("losses", "weight", "answers", "since", "judged", "due")  # arrays that do not change with the columns

POWERS = np.multiply.accumulate(np.concatenate(([1.0], np.full(BLOCK, FADING))))
"""The factors of a weight after 0 ... BLOCK examples."""


class Contest(NamedTuple):
    """The arrays; see the module's docstring."""

    fits: Array
    losses: Array
    gaps: Array
    weight: Array
    answers: Array
    since: Array
    judged: Array
    due: Array


def probabilities(fit: Array, number: int, scores: Array) -> Array:
    """Return the probabilities (m, K) for scores (m, K), by the fit (K, 2) of calibration `number`."""
    return Calibration(fit, softmax=number != SIGMOIDS).classes(scores)


def temperature_step(a: float, scores: Array, classes: Array) -> float:
    """Return the inverse temperature after a step from `a`; from 0 it first goes to 1 / s."""
    (n, k), square = scores.shape, _square(scores)
    if not square > 0.0:
        return a
    a = a or float(1.0 / np.sqrt(square))
    expected = probabilities(np.column_stack((np.full(k, -a), np.zeros(k))), TEMPERATURE, scores) * scores
    mean = _by_example(expected)
    any_class = 1.0 / (n + 1)
    target = (1.0 - any_class) * _total(scores[np.arange(n), classes]) + any_class * _total(scores.sum(axis=0)) / k
    gradient = _total(mean) - target + RIDGE * square * a
    curvature = max(_total((expected * scores).sum(axis=0)) - _total(mean * mean), 0.0) + RIDGE * square
    least = LEAST / float(np.sqrt(square))
    return float(min(max(a - gradient / curvature, a / FARTHEST, least), a * FARTHEST, FIT_MAX))


def vector_step(slopes: Array, biases: Array, a: float, scores: Array, classes: Array) -> tuple[Array, Array]:
    """Return the slopes a_c and biases b_c (K,) after a step. No slope is negative. a: the inverse temperature."""
    (n, k), square = scores.shape, _square(scores)
    if not square > 0.0:
        return slopes, biases
    p = probabilities(np.column_stack((-slopes, -biases)), VECTOR, scores)
    bound = 2.0 * p * (1.0 - p)
    any_class = 1.0 / (n + 1)
    p -= any_class / k
    p[np.arange(n), classes] -= 1.0 - any_class
    bound_scores = bound * scores
    g_a, g_b = (p * scores).sum(axis=0) + square * (slopes - a), p.sum(axis=0) + biases
    h_aa, h_ab = (bound_scores * scores).sum(axis=0) + square, bound_scores.sum(axis=0)
    h_bb = bound.sum(axis=0) + 1.0
    determinant = h_aa * h_bb - h_ab * h_ab
    most = 1.0 / np.sqrt(square)
    d_a = np.clip((h_bb * g_a - h_ab * g_b) / determinant, -most, most)
    d_b = np.clip((h_aa * g_b - h_ab * g_a) / determinant, -1.0, 1.0)
    return np.minimum(np.maximum(slopes - d_a, 0.0), FIT_MAX), biases - d_b


def _square(scores: Array) -> float:
    """Return the mean square of the scores."""
    return _total((scores * scores).sum(axis=0)) / scores.size


def _by_example(values: Array) -> Array:
    """Return (m,) the sums over the classes of values (m, K), one class after another."""
    return np.asarray(np.ascontiguousarray(values.T).sum(axis=0))


def _total(values: Array) -> float:
    """Return the sum of values (m,), added in their order."""
    return float(np.add.accumulate(values)[-1])


class Calibrations:
    """The sigmoids and, if a choice is wanted and there are three or more columns, the other calibrations."""

    def __init__(self, *, choosing: bool = True) -> None:
        """choosing: whether calibrations are compared; else the sigmoids answer."""
        self.sigmoid = Sigmoid()
        self._choosing = choosing
        self._contest: Contest | None = None

    @property
    def columns(self) -> int:
        """Number of columns of the decision values."""
        return self.sigmoid.columns

    @property
    def seen(self) -> int:
        """Number of examples learned."""
        return self.sigmoid.seen

    def choose(self, *, choosing: bool) -> None:
        """Start or stop the comparison of calibrations. The sigmoids do not change."""
        self._choosing = choosing
        if not choosing:
            self._contest = None
        elif self._contest is None and self.columns >= COLUMNS:
            self._contest = _begun(self.columns, self.seen)
            if self.seen:
                self._fit(self._contest)

    def widen(self, columns: int) -> None:
        """Add columns. Two classes keep their sigmoids; a new column gets the common temperature."""
        self.sigmoid.widen(columns)
        if self._contest is None:
            self.choose(choosing=self._choosing)
            return
        old = self._contest
        known = old.fits.shape[1]
        new = _begun(columns, self.seen)._replace(**{name: getattr(old, name) for name in OF_ALL})
        new.fits[:, :known], new.gaps[:, :known] = old.fits, old.gaps
        new.fits[SIGMOIDS, known:] = self.sigmoid.fit[known:]
        new.fits[TEMPERATURE:, known:, 0] = old.fits[TEMPERATURE, 0, 0]
        self._contest = new

    def learn(self, columns: Array, classes: Array) -> Array:
        """Learn as `Sigmoid.learn`, and return the probabilities of the calibration that answers."""
        contest = self._contest
        m, k = columns.shape
        if contest is None or self.seen + m < contest.due[0]:
            return self._answered(columns, classes)
        self.sigmoid.check(columns, classes)
        begin, parts = 0, [np.empty((0, max(k, 2)))]
        while begin < m:
            end = min(m, begin + int(contest.due[0]) - self.seen)
            parts.append(self._answered(columns[begin:end], classes[begin:end]))
            if self.seen == contest.due[0]:
                self._judge(contest)
                self._fit(contest)
                contest.judged[0] = self.seen
                contest.due[0] += min(max(1, (self.seen - int(contest.since[0])) // 10), BLOCK)
            begin = end
        return np.concatenate(parts)

    def _answered(self, columns: Array, classes: Array) -> Array:
        """Learn examples, of which only the last may make the fits due."""
        out, softmax = self.sigmoid.learn(columns, classes), self._softmax()
        if softmax is not None:
            softmax_of(softmax, np.array(columns, np.float64, order="C"), out)
        return out

    def _softmax(self) -> Array | None:
        """Return the fit that answers, or None if the sigmoids answer."""
        if self._contest is None or self._contest.answers[0] == SIGMOIDS:
            return None
        fit: Array = self._contest.fits[self._contest.answers[0]]
        return fit

    def _judge(self, contest: Contest) -> None:
        """Add up each calibration's loss over the examples since the last time; choose which calibration answers."""
        m = self.seen - int(contest.judged[0])
        if contest.judged[0] < contest.since[0] + UNJUDGED:
            return
        scores, classes = self.sigmoid.newest(m)
        weights = POWERS[:m][::-1, None]
        bins = np.arange(self.columns) * BINS
        for number, fit in enumerate(contest.fits):
            p = probabilities(fit, number, scores)
            lost = (weights * losses_of(p, classes)).sum(axis=0)
            places = bins + np.minimum((BINS * p).astype(np.int64), BINS - 1)
            p[np.arange(m), classes] -= 1.0
            gaps = np.bincount(places.ravel(), (weights * p).ravel(), self.columns * BINS).reshape(self.columns, BINS)
            contest.losses[number] = contest.losses[number] * POWERS[m] + lost
            contest.gaps[number] = contest.gaps[number] * POWERS[m] + gaps
        contest.weight[0] = contest.weight[0] * POWERS[m] + _total(POWERS[:m])
        lost = contest.losses[:, LOG_LOSS]
        if lost.min() < lost[contest.answers[0]] - AHEAD:
            contest.answers[0] = lost.argmin()

    def _fit(self, contest: Contest) -> None:
        """Take one step for the temperature and for the vector, and copy the current sigmoids."""
        scores, classes = self.sigmoid.newest(min(self.seen, FITTED))
        fits = contest.fits
        before = -float(fits[TEMPERATURE, 0, 0])
        a = temperature_step(before, scores, classes)
        slopes = np.maximum(a - before - fits[VECTOR, :, 0], 0.0)
        slopes, biases = vector_step(slopes, -fits[VECTOR, :, 1], a, scores, classes)
        fits[SIGMOIDS] = self.sigmoid.fit
        fits[TEMPERATURE, :, 0] = -a
        fits[VECTOR, :, 0], fits[VECTOR, :, 1] = -slopes, -biases

    def calibration(self) -> Calibration:
        """Return the current fit of the calibration that answers. Before the first example it is empty."""
        softmax = self._softmax()
        if softmax is None or not self.seen:
            return self.sigmoid.calibration()
        return Calibration(softmax.copy(), softmax=True)

    def figures(self) -> dict[str, Any] | None:
        """Return the name of the calibration that answers, and the mean losses of each; None if there is no choice.

        classwise_error: for a class, the mean gap between its probability and its frequency, by tenths of that
        probability. The result is the average over the classes (Kull et al., Beyond temperature scaling, NeurIPS 2019,
        section 2).
        """
        contest = self._contest
        if contest is None:
            return None
        weight = float(contest.weight[0])
        lost = np.column_stack((contest.losses, np.abs(contest.gaps).sum(axis=2).mean(axis=1)))
        means = lost / weight if weight else np.full(lost.shape, None)
        each = (dict(zip(FIGURES, row, strict=True)) for row in means.tolist())
        return {"answers": NAMES[contest.answers[0]], "examples": weight, **dict(zip(NAMES, each, strict=True))}

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the state without the sigmoids' state; empty if there is no choice."""
        return {} if self._contest is None else {name: a.copy() for name, a in self._contest._asdict().items()}

    def load(self, sigmoid: State, state: State) -> None:
        """Load a state of the sigmoids and a state that `state` returned.

        Raise ValueError if an array does not fit the rest.
        """
        self.sigmoid.load(sigmoid)
        self._contest = None
        if not self._choosing or self.columns < COLUMNS:
            return
        k, seen, read = self.columns, self.seen, StateReader(state)
        since = read.take("since", np.int64, (1,), 0, seen)
        judged = read.take("judged", np.int64, (1,), max(int(since[0]), seen - BLOCK), seen)
        contest = Contest(
            fits=read.take("fits", np.float64, (len(NAMES), k, 2), -FIT_MAX, FIT_MAX),
            losses=read.take("losses", np.float64, (len(NAMES), 2), -WEIGHT_MAX, LOSS_MAX * WEIGHT_MAX),
            gaps=read.take("gaps", np.float64, (len(NAMES), k, BINS), -WEIGHT_MAX, WEIGHT_MAX),
            weight=read.take("weight", np.float64, (1,), 0, WEIGHT_MAX),
            answers=read.take("answers", np.int64, (1,), 0, len(NAMES) - 1),
            since=since,
            judged=judged,
            due=read.take("due", np.int64, (1,), seen + 1, int(judged[0]) + BLOCK),
        )
        if 0 < contest.weight[0] < 1:  # the newest example alone weighs 1
            raise ValueError(f"weight must be 0, or 1 and more, got {contest.weight[0]:g}")
        slopes, temperature = contest.fits[TEMPERATURE:, :, 0], contest.fits[TEMPERATURE]
        if (slopes > 0.0).any() or (temperature[:, 0] != temperature[0, 0]).any() or temperature[:, 1].any():
            raise ValueError("fits of a softmax must have no slope below 0, and the same temperature for all classes")
        self._contest = contest


def _begun(columns: int, seen: int) -> Contest:
    count = np.full(1, seen, np.int64)
    return Contest(
        fits=np.zeros((len(NAMES), columns, 2)),
        losses=np.zeros((len(NAMES), 2)),
        gaps=np.zeros((len(NAMES), columns, BINS)),
        weight=np.zeros(1),
        # Sigmoids that were fitted with two classes give good probabilities at once. Without such sigmoids, the
        # temperature is the first calibration that gives good probabilities.
        answers=np.full(1, SIGMOIDS if seen else TEMPERATURE, np.int64),
        since=count,
        judged=count.copy(),
        due=count + 1,
    )
