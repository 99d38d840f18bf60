"""The solvers as scikit-learn estimators: pipelines, grid searches and partial_fit over online kernel machines.

    from sklearn.datasets import make_moons
    from hinged.sklearn import LASVMClassifier

    X, y = make_moons(2000, noise=0.2, random_state=0)
    model = LASVMClassifier(C=10.0, random_state=0).fit(X, y)  # one epoch and a finishing step
    model.predict(X), model.n_support_, model.solver_.certificate()

    stream = LASVMClassifier(C=10.0, gamma=1.0)
    for k in range(0, len(X), 100):  # learns at once, in order, and forgets the batch
        stream.partial_fit(X[k : k + 100], y[k : k + 100], classes=[0, 1])

`fit` makes `epochs` passes, shuffled by `random_state`, and finishes; `partial_fit` learns a batch in the order in
which it comes and does nothing else, so that a stream in pieces is the stream. Either may go on from the other's end.

Several classes are one-versus-rest over one set of points. With K = 1 column for two classes, else one a class,

    decision_function(X) = kernel(X, support_vectors_) @ dual_coef_.T + intercept_,

of shape (n,) for two classes, where positive means classes_[1], else (n, K), where the largest wins. A fitted
estimator pickles and copies as its solver's state, and a copy goes on learning to the bit.

Needs scikit-learn: pip install hinged[sklearn].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hinged.solvers.budget.budget import BSGD
from hinged.solvers.core.parameters import NONE, one_of, rules_of
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import POINTS_MAX
from hinged.solvers.estimators.base import Learner
from hinged.solvers.estimators.classifier import Array, BoundedClassifier, SolverClassifier
from hinged.solvers.estimators.parameters import RULES


@dataclass(kw_only=True, eq=False, repr=False)
class DualClassifier(BoundedClassifier):
    """Solvers that keep gradients, take all examples at once, and optimise. Further parameters: BoundedClassifier.

    tol: the largest violation that stays. precision: "float32" or "float64", of points and kernel values. points_max:
    points that may be held. when_full: there "refuse" to learn, or "remove" the least useful point. cache_size: memory
    of cached kernel rows, MB.
    """

    tol: float = 1e-3
    precision: str = "float32"
    points_max: int = POINTS_MAX
    when_full: str = "refuse"
    cache_size: float = 256

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        return {**super()._solver_parameters(examples), "cache_bytes": int(self.cache_size * 2**20)}


class SMOClassifier(DualClassifier):
    """The batch support vector machine, with a bias; partial_fit solves again over all that came."""

    solver = "smo"

    @property
    def one_by_one(self) -> bool:
        """It solves again over all."""
        return False


@dataclass(kw_only=True, eq=False, repr=False)
class EpochClassifier(SolverClassifier):
    """Solvers that learn one example at a time. Further parameters: SolverClassifier.

    epochs: passes of `fit` over the data. shuffle: whether each is in a random order of its own.
    """

    epochs: int = 1
    shuffle: bool = True

    batch: ClassVar[int] = 1024  # examples that `fit` hands over at a time

    def _fit(
        self,
        learner: Learner,
        rows: Rows,
        numbers: Array,
        random: np.random.RandomState,
        first: int = 0,
        *,
        weights: Array | None = None,
        again: bool = False,
    ) -> bool:
        for epoch in range(self.epochs):
            order = random.permutation(len(rows)) if self.shuffle else np.arange(len(rows))
            batch, known = self._batch(len(rows)), again or epoch > 0
            learner.learn_epoch(rows, numbers, order, batch, weights=weights, first=first, again=known)
        return self._finish(learner)

    def _batch(self, examples: int) -> int:
        return min(self.batch, examples)

    def _finish(self, learner: Learner) -> bool:
        return learner.solver.finish().converged


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineClassifier(EpochClassifier, DualClassifier):
    """Online solvers that keep gradients. Further parameters: EpochClassifier, DualClassifier.

    finish: whether `fit` ends by optimising over the points held.
    """

    finish: bool = True

    def _finish(self, learner: Learner) -> bool:
        return super()._finish(learner) if self.finish else True


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMClassifier(OnlineClassifier):
    """LASVM, with a bias (Bordes, Ertekin, Weston and Bottou, JMLR 6, 2005). Further parameters: OnlineClassifier.

    delta_min: violations that the first epoch leaves to the others and to finishing; None: 0.5 with three classes or
    more. delta_max: repeat REPROCESS at each example until no pair violates by more; None: do it once. second_order:
    choose the partner in REPROCESS by the gain that it promises. idle_max: points up to which those without a
    coefficient are kept. seed_max: examples kept while only one class has come. The paper's LASVM: delta_min=0,
    delta_max=None, idle_max=0.

    C "auto": LASVMs that differ in C and in how many times `gamma` theirs is race along the examples, and the one that
    answers best answers (race.py); attributes are those of the one that leads.
    """

    solver = "lasvm"
    own_rules = {"C": RULES["C"] | one_of("auto")}  # noqa: RUF012  nobody writes into it

    C: Any = 1.0
    delta_min: float | None = None
    delta_max: float | None = 2.0
    second_order: bool = False
    idle_max: int = 2000
    seed_max: int = 1000

    def _solver_name(self) -> str:
        return "auto" if self._races else self.solver

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        parameters = super()._solver_parameters(examples)
        return {name: value for name, value in parameters.items() if not (self._races and name == "C")}

    @property
    def _races(self) -> bool:
        return isinstance(self.C, str) and self.C == "auto"

    @property
    def arms_(self) -> list[dict[str, Any]] | None:
        """Of C "auto", the arms that are left, and which leads."""
        return self.solver_.arms_in_figures()


@dataclass(kw_only=True, eq=False, repr=False)
class FullSVMClassifier(OnlineClassifier):
    """FULL: paced by the duality gap, keeps all points (Ertekin, Bottou and Giles, TPAMI 33, 2011).

    delta_min: violations of a point that the first epoch leaves to the others and to finishing; None: 0.25 with three
    classes or more. Further parameters: OnlineClassifier.
    """

    solver = "full"

    delta_min: float | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMGClassifier(FullSVMClassifier):
    """LASVM-G: FULL, but points without a coefficient are cleaned away. Further parameters: FullSVMClassifier.

    idle_max: points without a coefficient that CLEAN leaves. clean_every: examples between two CLEANs.
    """

    solver = "lasvm-g"

    idle_max: int = 1000
    clean_every: int = 1000


@dataclass(kw_only=True, eq=False, repr=False)
class LASVMNCClassifier(LASVMGClassifier):
    """LASVM-NC: with the ramp loss, which gives outliers up. Further parameters: LASVMGClassifier.

    ramp_s: margin below which an example is an outlier, < 1. ramp_start: support vectors that a class must have before
    the ramp counts for it.
    """

    solver = "lasvm-nc"

    ramp_s: float = -1.0
    ramp_start: int = 100


class LASVMIClassifier(LASVMNCClassifier):
    """LASVM-I: LASVM-G behind the ramp, which passes outliers and what lies beyond the margin over when they come."""

    solver = "lasvm-i"


@dataclass(kw_only=True, eq=False, repr=False)
class TrackingSVMClassifier(OnlineClassifier):
    """Averaged tracking SVMs (Usunier, Bordes and Bottou, AISTATS 2010). Further parameters: OnlineClassifier.

    algorithm: 1 or 2 of the paper, "cached" (section 5.2) or "batch" (section 6). K: updates at each example; of
    "batch", rounds at most at each batch. draws: points drawn for an update, of which the one that gains most is
    updated. delta_max: updates before those that are averaged, until none drawn violates by more. With `finish` the
    optimum predicts, else the average. The paper's algorithms: draws=1, delta_max=None.
    """

    solver = "tracking-2"
    ALGORITHMS: ClassVar[tuple[int | str, ...]] = (1, 2, "cached", "batch")
    own_rules = {"algorithm": one_of(*ALGORITHMS)}  # noqa: RUF012  nobody writes into it

    algorithm: int | str = 2
    K: int = 10
    draws: int = 100
    delta_max: float | None = 1.0

    def _solver_name(self) -> str:
        return f"tracking-{self.algorithm}"

    @property
    def one_by_one(self) -> bool:
        """All but the batch machine do."""
        return self.algorithm != "batch"

    def _batch(self, examples: int) -> int:
        return examples if self.algorithm == "batch" else super()._batch(examples)


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetClassifier(EpochClassifier):
    """Solvers that hold at most `budget` points, without a bias. Further parameters: EpochClassifier.

    precision: "float32" or "float64", of points and kernel values.
    """

    budget: int = 500
    precision: str = "float32"


@dataclass(kw_only=True, eq=False, repr=False)
class MergingClassifier(BudgetClassifier, BoundedClassifier):
    """Solvers whose points merge. Further parameters: BudgetClassifier, BoundedClassifier.

    maintenance: what makes way for one point more: "merge" (rbf alone), "project" or "remove"; None for "merge" with
    rbf, else "project". merging: finds the place of a merged point by "table" or "golden" section. averaging: examples
    that the average of the coefficients spans that predicts; None: they predict themselves. nearest: points that take
    over what a merge takes from that average, from 1 to 200; None for 19 with a budget of up to 200, else 3.
    """

    maintenance: str | None = None
    merging: str = "table"
    averaging: int | None = 1000
    nearest: int | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class BSCAClassifier(MergingClassifier):
    """Budgeted stochastic coordinate ascent (Qaadan, Schueler and Glasmachers, ICPRAM 2019).

    step_max: the longest step at first, in units of 1 / k(x, x), or None. step_decay: examples after which it is
    1 / sqrt(2) of that. step_least: what it shrinks to. extra_steps: further steps at each example, on the last
    `reservoir` ones. remembered: examples whose coefficient is known again in a further epoch. Further parameters:
    MergingClassifier.
    """

    solver = "bsca"

    step_max: float | None = 2.0
    step_decay: float = 1000.0
    step_least: float = 0.25
    extra_steps: int = 0
    reservoir: int = 1000
    remembered: int = 2**17


@dataclass(kw_only=True, eq=False, repr=False)
class BSGDClassifier(MergingClassifier):
    """Budgeted stochastic gradient descent (Wang, Crammer and Vucetic, JMLR 13, 2012).

    Its lambda is `regularization`, or 1 / (C examples) where that is None. examples: None for the number of those that
    `fit` is given, and 10,000 in partial_fit. Further parameters: MergingClassifier.
    """

    solver = "bsgd"
    own_rules = {"examples": NONE | rules_of(BSGD)["examples"]}  # noqa: RUF012  nobody writes into it

    regularization: float | None = None
    examples: int | None = None

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        return {**super()._solver_parameters(examples), "examples": self.examples or examples or 10_000}


@dataclass(kw_only=True, eq=False, repr=False)
class ExactSVMClassifier(BoundedClassifier):
    """The optimum after every example, by exact increments in float64 (Diehl and Cauwenberghs, IJCNN 2003).

    points_max, when_full, cache_size: as of DualClassifier. solver_ can also unlearn examples, by their row in X, and
    gives exact leave-one-out errors. Further parameters: BoundedClassifier.
    """

    solver = "exact"

    points_max: int = POINTS_MAX
    when_full: str = "refuse"
    cache_size: float = 256

    def _solver_parameters(self, examples: int | None) -> dict[str, Any]:
        return {**super()._solver_parameters(examples), "cache_bytes": int(self.cache_size * 2**20)}
