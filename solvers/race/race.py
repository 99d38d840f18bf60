"""A race of solvers inside one model. The race finds C, gamma and the half-life while the model is in use.

Each arm (arms.py) is a LASVM or LASVM-NC that learns every example once. Each arm predicts every example before it
learns the label. The race counts each arm's correct answers, weighted by example; old answers fade. By this count one
arm leads. The model's answer is the mean of the arms' answers, in which arms clearly behind do not count (mean.py). The
worst arms leave (leaving.py). From time to time the race is opened, and new arms join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le

from hinged.solvers.core.cores import on_each
from hinged.solvers.core.families import KERNELS, NAME_OF
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.parameters import Since
from hinged.solvers.core.reports import (
    Certificate,
    Contributions,
    Finish,
    FinishRound,
    PointScores,
    View,
    WholeFinish,
    untold,
)
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import CACHE_BYTES, Solver, class_numbers, columns_of, seen_without
from hinged.solvers.core.states import COUNT_MAX, State, StateReader, check_learned
from hinged.solvers.dual.gap import GapSVM
from hinged.solvers.dual.lasvm import LASVM
from hinged.solvers.race.arms import (
    C_MOST,
    FORMER_FIELDS,
    RULES,
    Arm,
    Setting,
    favoured,
    first_settings,
    near,
    read_settings,
)
from hinged.solvers.race.evidence import avoided, evidence_of
from hinged.solvers.race.late import LATE, SERIALS, credit_of, kept_answers
from hinged.solvers.race.leaving import MOST, staying
from hinged.solvers.race.mean import MeanView, joined, mean_of
from hinged.solvers.race.ranking import Ranking
from hinged.solvers.race.standings import (
    accuracies,
    count,
    joined_by,
    kept,
    new_standings,
    read_standings,
    shares_of,
    state_of,
)

Array = np.ndarray[Any, Any]

LOOK = 250  # evidence between two decisions about which arms to remove
NEARLY = 0.9  # share of LOOK that is enough: the first examples may be little evidence
PATIENCE = 5_000  # evidence until the race is opened again; doubled if the same arm still leads
PATIENCE_MAX = 80_000
NEWCOMERS = 2  # number of arms that join at an opening, with settings near the leader's
CACHES = 3  # each arm gets 1 / CACHES of the memory for kernel rows

SHARED = ("points_max", "when_full", "seed", "dtype")


class Race(Solver):
    """LASVM that finds C, gamma, half-life and loss while it learns.

    kernel, C: each arm multiplies gamma and C by its own factors. points_max, when_full: apply to each arm. rules:
    version of the race's rules. With 5, the model's answer is a mean; before, it was the leader's answer. One arm is
    favoured where one class is rare (standings.py). It then also counts how high an arm ranks an example of that class,
    if accuracy is the goal and the example has no weight (ranking.py).
    From 4 on, an arm with the ramp loss takes few steps for an example (arms.py). From 3 on, Laplacian arms race beside
    the arms of an RBF kernel, and the best arm that forgets fast, slowly and never stays. Where one class is rare the
    race takes more examples to decide. If a label comes late, what an arm answered when it was asked counts (late.py).
    From 2 on, answers count by weight, and arms that fade learn only in the first epoch: in a further epoch, faded
    examples would regain their full weight. With 1, all answers count the same, and all arms learn in further epochs.
    goal: "balanced" counts an answer by the rarity of its class, and "cost" by what errors cost (evidence.py). Other
    parameters: as in LASVM; an arm may use a smaller idle_max.
    """

    fades: ClassVar[bool] = True

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        C: float = 1.0,
        cache_bytes: int = CACHE_BYTES,
        rules: Annotated[
            int,
            Ge(1),
            Le(RULES),
            Since(1),
            "5: the answer is a mean of the arms' answers, and ranks count where one class is rare; 4: arms with the "
            "ramp loss take few steps for an example; 3: Laplacian arms race beside RBF arms; if a label comes late, "
            "earlier answers count; 2: answers count by weight, and arms that fade learn in the first epoch only; "
            "1: all answers count the same, and all arms learn in further epochs",
        ] = RULES,
        goal: Annotated[
            Literal["accuracy", "balanced", "cost"],
            Since("accuracy"),
            "what the leading arm is best at; balanced: the mean accuracy over all classes, so that an answer for a "
            "rare class counts more; cost: how little its errors cost",
        ] = "accuracy",
        **parameters: Any,
    ) -> None:
        own = {name: parameters[name] for name in SHARED if name in parameters}
        super().__init__(kernel, dim, C=C, cache_bytes=cache_bytes, **own)
        self.rules, self.former, self.goal = rules, rules in {1, 2}, goal
        self.shared = {**parameters, "cache_bytes": cache_bytes // CACHES}
        self.learned = 0
        self.evidence = 0.0  # evidence of the examples learned (evidence.py)
        self.looked = 0.0  # evidence when the race last decided which arms to remove
        self.opened = 0.0  # evidence when the race was last opened
        self.openings = 0
        self.patience = PATIENCE  # evidence from one opening to the next
        self.unjudged = 0.0  # evidence since the race was opened that has not judged every arm (late.py)
        self.changed = 0.0  # evidence since then for which an arm's answer changed before the label came
        settings = first_settings(kernel, rules)
        self.arms = [self._new_arm(setting, serial) for serial, setting in enumerate(settings)]
        self.joined = len(self.arms)  # arms that have ever joined
        self.standings = new_standings(len(self.arms))
        self.ranking = Ranking(len(self.arms), 0)
        self.led = self.arms[0].setting  # the leader's setting at the last opening

    def _new_arm(self, setting: Setting, serial: int) -> Arm:
        arm = Arm(setting, self.kernel, self.dim, self.C, bounded=self.rules > 3, **self.shared)
        arm.serial = serial % SERIALS
        arm.machine.fading, arm.machine.even = self.fading or arm.fades, not self.former
        for weight in self.weights:
            arm.machine.add_class(float(weight))
        return arm

    @property
    def C_max(self) -> float:
        """The largest C of any arm."""
        return self.C * C_MOST

    @property
    def averages(self) -> bool:
        """Whether the model's answer is the mean of its arms' answers (mean.py), or the leader's answer."""
        return self.rules > 4

    @property
    def leader(self) -> Arm:
        """The arm that is ahead."""
        return self.arms[int(self.standings.leader[0])]

    @property
    def machines(self) -> list[LASVM | GapSVM]:
        """The solvers of all arms."""
        return [arm.machine for arm in self.arms]

    def add_class(self, weight: float = 1.0) -> None:
        """Announce another class (Solver.add_class) to every arm."""
        super().add_class(weight)
        for machine in self.machines:
            machine.add_class(weight)

    def _add_columns(self, classes: int) -> None:
        self.ranking = Ranking(len(self.arms), columns_of(classes))  # the arms add their own columns

    def weigh(self, weight: float) -> None:
        """Give the examples learned from now on this weight, in every arm."""
        super().weigh(weight)
        for machine in self.machines:
            machine.weigh(weight)

    # -- learning -------------------------------------------------------------------------------------------------

    @property
    def live(self) -> int:
        """The number of points of the arm that has the most points."""
        return max(machine.live for machine in self.machines)

    def check_batch(self, rows: Rows, classes: Array, keys: Array, announced: int | None = None) -> None:
        """Refuse a batch that does not fit every arm (Solver.check_batch)."""
        super().check_batch(rows, classes, keys, announced)
        known = self._known(rows) if self.when_full == "refuse" else {}
        for machine in self.machines if known else ():
            machine.check_batch(known[machine.kernel.code], classes, keys, announced)

    @property
    def keeps_answers(self) -> bool:
        """Whether what the arms answer when they are asked will count (Solver.keeps_answers)."""
        return not self.former

    def answers(self, rows: Rows) -> list[bytes]:
        """Return what each arm answers now (Solver.answers); nothing before the first example."""
        if not self.learned:
            return super().answers(rows)
        known = self._known(rows)
        scores = np.stack([machine.decision(known[machine.kernel.code]) for machine in self.machines])
        serials = [arm.serial for arm in self.arms]
        return kept_answers(serials, class_numbers(scores, self.classes), int(self.standings.leader[0]))

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Learn a batch in every arm (Solver.learn).

        Return for each example the decision values that the race would have answered just before it learned it.
        """
        return self._learn(rows, classes, keys, None, again=again)

    def learn_late(
        self, rows: Rows, classes: Array, keys: Array, asked: Sequence[bytes | None], weights: Array | None = None
    ) -> Array:
        """Learn a batch whose answers were asked for earlier (Solver.learn_late)."""
        if not self.keeps_answers:
            return super().learn_late(rows, classes, keys, asked, weights)
        if weights is None:
            return self._learn(rows, classes, keys, asked, again=False)
        weights = self.check_weights(weights, len(rows))
        self.check_batch(rows, classes, keys)
        return self._by_runs(
            rows, weights, lambda part, run: self._learn(part, classes[run], keys[run], asked[run], again=False)
        )

    def _learn(
        self, rows: Rows, classes: Array, keys: Array, asked: Sequence[bytes | None] | None, *, again: bool
    ) -> Array:
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        if again:
            self.seen = self.seen + np.where(self.seen == 0, np.bincount(classes, minlength=self.classes) > 0, 0)
            return self._learn_again(rows, classes, keys)
        found, begin, m = np.empty((len(rows), self.columns)), 0, len(rows)
        while begin < m:
            end = min(m, begin + LOOK - self.learned % LOOK)
            part = slice(begin, end)
            then = None if asked is None else asked[begin:end]
            found[part] = self._learn_part(rows.part(begin, end), classes[part], keys[part], then)
            begin = end
        return found

    def _learn_part(self, rows: Rows, classes: Array, keys: Array, asked: Sequence[bytes | None] | None) -> Array:
        known = self._known(rows)
        learned = self.learned
        scores = np.stack(
            on_each(lambda arm: arm.learn(known[arm.machine.kernel.code], classes, keys, learned), self.arms)
        )
        numbers = class_numbers(scores, self.classes)
        right, shares = (numbers == classes).T, None
        if self.averages:
            right &= (scores != 0.0).any(axis=2).T  # an arm that knows nothing is wrong about either class
        weights = self.factors[classes] if self.rules > 1 else np.ones(len(rows))
        evidence, balance = evidence_of(self.seen, classes)
        if self.former:
            evidence = np.ones(len(rows))
        if self.goal == "balanced":
            weights = self.weight * balance
        elif self.goal == "cost" and self.costs is not None:
            worst, shares = avoided(self.costs, classes)
            right, weights = shares[np.arange(len(rows)), numbers].T, self.weight * worst
        leaders, counted = self._count(right, scores, classes, weights, evidence, asked, shares)
        self.seen = self.seen + np.bincount(classes, minlength=self.classes)
        self.learned += len(rows)
        for each in evidence.tolist():
            self.evidence += each
        if self.learned % LOOK == 0 and self.evidence - self.looked > NEARLY * LOOK:
            self.looked = self.evidence
            if self.judged > NEARLY * LOOK:
                self._send_off()
            if self.evidence - self.opened >= self.patience and self.judged >= MOST[-1][0]:
                self._open()
        if self.averages:
            return mean_of(scores, counted.T[:, :, None])
        answers: Array = scores[leaders, np.arange(len(rows))]
        return answers

    def _known(self, rows: Rows) -> dict[int, Rows]:
        """Return the rows for the kernel of each arm, by the kernel's code."""
        kernels = {arm.machine.kernel.code: arm.machine.kernel for arm in self.arms}
        return {code: rows.under(kernel) for code, kernel in kernels.items()}

    @property
    def judged(self) -> float:
        """Evidence since the race was opened that has judged every arm."""
        return self.evidence - self.opened - self.unjudged

    def _count(
        self,
        right: Array,
        scores: Array,
        classes: Array,
        weights: Array,
        evidence: Array,
        asked: Sequence[bytes | None] | None,
        shares: Array | None,
    ) -> tuple[Array, Array]:
        """Count the answers of a batch, right (m, A), scores (A, m, columns). Return what `count` returns."""
        credit = right
        if asked is not None:
            credit, judges = credit_of(right, classes, [arm.serial for arm in self.arms], asked, shares)
            for each in evidence[~judges].tolist():
                self.unjudged += each
            for each in evidence[(~np.isclose(credit, right)).any(axis=1)].tolist():
                self.changed += each
        if self.rules < 5:
            return count(self.standings, credit, weights, evidence, self.learned)
        if self.goal == "accuracy":
            ranked = np.where(self.factors[classes] == 1.0, evidence, 1.0)  # an example with a weight counts by it
            credit = self.ranking.add(scores, classes, self.seen, ranked, credit)
        return count(self.standings, credit, weights, evidence, self.learned, self._favoured())

    def _learn_again(self, rows: Rows, classes: Array, keys: Array) -> Array:
        """Learn a batch of a further epoch.

        Answers are not counted: on known examples they do not show which arm is best.
        """
        known, shares = self._known(rows), self._shares().tolist()

        def learned(arm: Arm, share: float) -> Array:
            own = known[arm.machine.kernel.code]
            if not arm.fades or self.rules == 1:
                return arm.machine.learn(own, classes, keys, again=True)
            return arm.machine.decision(own) if share else np.zeros((len(rows), self.columns))

        scores = on_each(lambda each: learned(*each), list(zip(self.arms, shares, strict=True)))
        return mean_of(scores, shares)

    def _send_off(self) -> None:
        """Remove the arms that leave. With rules 1 and 2 there are only two kinds of arms: with and without fading."""
        kinds = [int(arm.fades) if self.former else arm.setting.forgets for arm in self.arms]
        since, late = self.judged + (1.0 - NEARLY) * LOOK, self.changed * LATE > self.judged
        stay = staying(self.standings, kinds, since, late=late, former=self.former)
        if len(stay) < len(self.arms):
            self.standings = kept(self.standings, np.array(stay, np.int64))
            self.ranking.take(np.array(stay, np.int64))
            self.arms = [self.arms[a] for a in stay]

    def _open(self) -> None:
        """Add arms with settings near the leader's.

        They learn the leader's points and start with the leader's record.
        """
        there = {arm.setting for arm in self.arms}
        steps = list(near(self.leader.setting, self.kernel, self.rules))
        first = NEWCOMERS * self.openings
        turn = [steps[(first + k) % len(steps)] for k in range(len(steps))]
        coming = [step for step in turn if step.allowed(self.rules) and step not in there][:NEWCOMERS]
        for setting in coming:
            arm = self._new_arm(setting, self.joined)
            self.joined += 1
            arm.learn_from(self.leader)
            arm.machine.weigh(self.weight)
            self.arms.append(arm)
        self.ranking.take(np.append(np.arange(len(there)), np.full(len(coming), self.standings.leader[0])))
        self.standings = joined_by(self.standings, len(coming))
        self.opened, self.openings = self.evidence, self.openings + 1
        self.unjudged = self.changed = 0.0
        same = self.leader.setting == self.led
        self.patience = min(2 * self.patience, PATIENCE_MAX) if same else PATIENCE
        self.led = self.leader.setting

    def finish(self) -> Finish:
        """Run the finishing step of every arm."""
        done = on_each(lambda machine: machine.finish(), self.machines)
        return Finish(sum(each.steps for each in done), all(each.converged for each in done))

    @property
    def reads_whole(self) -> bool:
        """Whether the leader reads the data set of `finish_over`."""
        return self.leader.machine.reads_whole

    def finish_over(
        self,
        rows: Rows,
        classes: Array,
        keys: Array,
        weights: Array | None = None,
        told: Callable[[FinishRound], None] = untold,
    ) -> WholeFinish:
        """Finish every arm over its points, and then the leader over the whole data set."""
        done, machine = self.finish(), self.leader.machine
        found = machine.finish_over(rows.under(machine.kernel), classes, keys, weights, told)
        return WholeFinish(done.steps + found.steps, done.converged and found.converged, found.missing)

    def drop(self, keys: Array) -> None:
        """Remove the points of these examples from every arm (Solver.drop)."""
        held, classes = self._held()
        going = np.isin(held, keys)
        if not going.any():
            return
        gone = np.bincount(classes[going], minlength=self.classes)
        left = np.bincount(classes[~going], minlength=self.classes)
        for machine in self.machines:
            machine.drop(keys)
        self.seen = seen_without(self.seen, gone, left)

    def _held(self) -> tuple[Array, Array]:
        """Return the distinct examples that have a point in at least one arm, and their classes."""
        keys = np.concatenate([machine.keys() for machine in self.machines])
        classes = np.concatenate([machine.held_classes() for machine in self.machines])
        found, first = np.unique(keys, return_index=True)
        return found, classes[first]

    def fade(self, factor: float) -> None:
        """Reduce the weight of everything learned so far (Solver.fade), in every arm."""
        for machine in self.machines:
            machine.fade(factor)

    def compact(self) -> None:
        """Release the memory of removed points."""
        for machine in self.machines:
            machine.compact()

    # -- reading --------------------------------------------------------------------------------------------------

    def view(self) -> View:
        """Return the views of the arms that count, with their shares."""
        counted = self._counted()
        views = [machine.view() for machine, _ in counted]
        if len(views) == 1:
            return views[0]
        leader = [machine for machine, _ in counted].index(self.leader.machine)
        return MeanView(tuple(views), tuple(share for _, share in counted), views[leader])

    def _counted(self) -> list[tuple[LASVM | GapSVM, float]]:
        """Return the machines that count in an answer, and their shares."""
        return [
            (machine, share) for machine, share in zip(self.machines, self._shares().tolist(), strict=True) if share
        ]

    def _shares(self) -> Array:
        """Return how much each arm counts in an answer now (A,)."""
        if not self.averages:
            alone: Array = np.eye(len(self.arms))[int(self.standings.leader[0])]
            return alone
        return shares_of(self.standings, self._next_evidence(), self._favoured())

    def _next_evidence(self) -> float:
        """Return how much evidence the next example will be, whatever its class."""
        return float(evidence_of(self.seen, np.zeros(1, np.int64))[0][0]) if self.classes else 1.0

    def _favoured(self) -> int:
        """Return the index of the arm that is favoured where one class is rare, or -1."""
        return favoured([arm.setting for arm in self.arms], self.kernel)

    def keys(self) -> Array:
        """Return the numbers of the examples that have a point in at least one arm."""
        return self._held()[0]

    def row_of(self, key: int) -> Rows | None:
        """Return the point of an example as a batch of one row, or None if no arm has the point."""
        found = (machine.row_of(key) for machine in self.machines)
        return next((row.under(self.kernel) for row in found if row is not None), None)

    def weight_of(self, key: int) -> float:
        """Return the example's own weight, without its class weight; 1 if no arm without fading stores it."""
        return next((weight for machine in self.machines if (weight := machine.weight_of(key)) != 1.0), 1.0)

    def indices(self, keys: Array) -> Array:
        """Return the features of the points of these examples, each feature at least once."""
        return np.concatenate([machine.indices(keys) for machine in self.machines])

    def contributions(self, rows: Rows) -> Contributions | None:
        """Return the contribution of each point to the decision values of a batch of one row."""
        counted = self._counted()
        found = [machine.contributions(rows) for machine, _ in counted]
        return joined([each for each in found if each is not None], [share for _, share in counted])

    def point_scores(self) -> PointScores | None:
        """Return the decision values at the leader's points."""
        held = self.leader.machine.point_scores()
        if held is None or len(self._counted()) == 1:
            return held
        return held._replace(scores=self.decision(held.rows))

    def certificate(self) -> Certificate:
        """Return the certificate of the leader."""
        return self.leader.machine.certificate()

    def arms_in_figures(self) -> list[dict[str, Any]]:
        """Return each arm's solver, C, gamma and half-life, its fading accuracy and what that counts, its points,
        whether it leads, and its share in an answer.
        """
        ranked = self.ranking.recent.size and self._next_evidence() < 1.0
        ranks = "accuracy, and ranks of rare classes" if ranked else "accuracy"
        counts = {"balanced": "balanced accuracy", "cost": "cost avoided"}.get(self.goal, ranks)
        rates = accuracies(self.standings, self.learned) if self.learned else [None] * len(self.arms)
        shares = self._shares()
        gammas = "gamma" in KERNELS[NAME_OF[self.kernel.code]].parameters
        return [
            {
                "solver": arm.solver,
                "kernel": NAME_OF[arm.machine.kernel.code],
                "C": arm.machine.C,
                "gamma": arm.machine.kernel.gamma if gammas else None,
                "half_life": arm.setting.half_life or None,
                "accuracy": rate,
                "counts": counts,
                "points": arm.machine.live,
                "leads": arm is self.leader,
                "share": share,
            }
            for arm, rate, share in zip(self.arms, rates, (shares / shares.sum()).tolist(), strict=True)
        ]

    def memory_bytes(self) -> int:
        """Return the memory of all arms, in bytes."""
        return sum(machine.memory_bytes() for machine in self.machines) + self.ranking.recent.nbytes

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the standings and the states of all arms."""
        fields = FORMER_FIELDS if self.former else len(Setting._fields)
        found = {
            "settings": np.array([arm.setting for arm in self.arms], np.float64)[:, :fields],
            "led": np.array(self.led, np.float64)[:fields],
            "counts": np.array([self.learned, int(self.opened), self.openings, self.patience]),
            "seen": self.seen.copy(),
            "weights": self.weights.copy(),
            **state_of(self.standings),
            **self.ranking.state(),
        }
        if not self.former:
            found["evidence"] = np.array([self.opened, self.looked, self.evidence])
            found["late"] = np.array([self.unjudged, self.changed])
            found["serials"] = np.array([self.joined, *(arm.serial for arm in self.arms)])
        for a, machine in enumerate(self.machines):
            found |= {f"{a}.{name}": array for name, array in machine.state().items()}
        return found

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        checked = StateReader(state)
        settings = read_settings(
            checked.take("settings", np.float64, (None, None), -1.0, COUNT_MAX), self.kernel, self.rules
        )
        (led,) = read_settings(
            checked.take("led", np.float64, (None,), -1.0, COUNT_MAX)[None, :], self.kernel, self.rules
        )
        learned, opened, openings, patience = checked.take("counts", np.int64, (4,), 0, COUNT_MAX).tolist()
        evidence = np.array([opened, learned // LOOK * LOOK, learned], np.float64)
        if not self.former:
            evidence = checked.take("evidence", np.float64, (3,), 0.0, learned)
        last, looked, now = evidence.tolist()
        unjudged, changed, (joined, *serials) = self._read_late(checked, len(settings), now - last)
        patient = PATIENCE <= patience <= PATIENCE_MAX and PATIENCE * openings <= last < opened + 1
        timely = now < last + patience + 2 * LOOK or now - last - unjudged < MOST[-1][0] + 2 * LOOK
        if not (patient and timely and opened <= last <= looked <= now < looked + 2 * LOOK):
            raise ValueError(f"of {learned} examples the race cannot have been opened at {opened}, got {evidence}")
        standings = read_standings(checked, len(settings), learned)
        seen, weights = self._read_seen(checked)
        check_learned(seen, learned)
        ranking = Ranking(len(settings), columns_of(weights.size))
        ranking.load(checked)
        arms = [self._new_arm(*each) for each in zip(settings, serials, strict=True)]
        for a, arm in enumerate(arms):
            prefix = f"{a}."
            arm.machine.load({name[len(prefix) :]: x for name, x in state.items() if name.startswith(prefix)})
            if arm.machine.weights.tolist() != weights.tolist():
                raise ValueError("all arms must have the race's weights of the classes")
        self.arms, self.standings, self.ranking = arms, standings, ranking
        self.unjudged, self.changed, self.joined = unjudged, changed, joined
        self.seen, self.weights = seen, weights
        self.learned, self.openings = learned, openings
        self.opened, self.looked, self.evidence = last, looked, now
        self.patience, self.led = patience, led

    def _read_late(self, checked: StateReader, arms: int, since: float) -> tuple[float, float, list[int]]:
        """Read `unjudged`, `changed`, and `joined` before the serial numbers of the arms."""
        if self.former:
            return 0.0, 0.0, [arms, *range(arms)]
        unjudged, changed = checked.take("late", np.float64, (2,), 0.0, since + 1.0).tolist()
        joined, *serials = checked.take("serials", np.int64, (1 + arms,), 0, COUNT_MAX).tolist()
        if len(set(serials)) < arms or not max(serials) < min(joined, SERIALS):
            raise ValueError(f"arms must have different serial numbers below {joined} and {SERIALS}, got {serials}")
        return unjudged, changed, [joined, *serials]

    def examine(self) -> None:
        """Refuse a state that learning cannot reach (Solver.examine), in any arm."""
        super().examine()
        for machine in self.machines:
            machine.examine()
