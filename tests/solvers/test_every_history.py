"""After any history, the solver's state determines its future, and no bit depends on where a computation was cut."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core import turns
from hinged.solvers.dual.exact import ExactSVM
from tests.helpers.solvers.streams import same, stream_of, three_classes

pytestmark = pytest.mark.long

names = pytest.mark.parametrize("name", SOLVERS)


class History:
    """A solver with random events, and the queries that it answers."""

    def __init__(self, name, seed, parameters):
        self.random = np.random.default_rng(seed)
        self.X, self.classes = three_classes(300, seed % 7)
        self.X[::5] = np.round(self.X[::5])  # some points are repeated
        self.X *= self.random.choice([1.0, 5.0])  # if all points are far from each other, all are free
        self.stream = stream_of(name, self.X, self.classes, announced=2, seed=seed, **parameters)
        self.fresh = np.flatnonzero(self.classes < 2)[:200].tolist()

    def happens(self, what, number):
        """Do one event. `number` determines all further choices, so that a twin can repeat the event."""
        random, solver = np.random.default_rng(number), self.stream.solver
        held = solver.keys()
        if what in {"learn", "learn many", "learn again"}:
            count = 60 if what == "learn many" else 7
            keys = [self.fresh.pop(0) for _ in range(min(count, len(self.fresh)))]
            if what == "learn again" and held.size:
                keys = random.choice(held, min(count, held.size), replace=False).tolist()
            if keys:
                rows = self.stream.rows(self.X[keys])
                solver.learn(rows, self.classes[keys], np.array(keys), again=what == "learn again")
        elif what == "drop" and held.size:
            solver.drop(random.choice(held, min(5, held.size), replace=False))
        elif what == "drop many" and held.size:
            solver.drop(random.choice(held, held.size // 2, replace=False))
        elif what == "finish":
            solver.finish()
        elif what == "compact":
            solver.compact()
        elif what == "class" and solver.classes == 2:
            solver.add_class(2.0)
            self.fresh += np.flatnonzero(self.classes == 2).tolist()
        elif isinstance(solver, ExactSVM) and held.size:
            if what == "relabel":
                key = int(random.choice(held))
                self.classes[key] = random.integers(solver.classes)
                solver.relabel(key, int(self.classes[key]))
            elif what == "C":
                solver.change_C(float(random.choice([0.1, 1.0, 20.0])))
            elif what == "kernel":
                solver.change_kernel(solver.kernel._replace(gamma=float(random.choice([0.5, 1.0, 2.0]))))

    def twin(self):
        """Return the same history, with a solver made from the state alone."""
        other = deepcopy(self)
        other.stream.solver = stream_of(other.stream.name, self.X, self.classes, announced=0, **PARAMETERS).solver
        other.stream.solver.load(self.stream.solver.state())
        return other


PARAMETERS = {"points_max": 120, "when_full": "remove"}
HAPPENINGS = ("learn", "learn", "learn many", "learn again", "drop", "drop many", "finish", "compact", "class")
EXACT_TOO = ("relabel", "C", "kernel")


@names
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_its_state_at_any_moment_determines_its_future(name, data):
    history = History(name, data.draw(st.integers(0, 999)), PARAMETERS)
    happenings = st.sampled_from((*HAPPENINGS, *EXACT_TOO) if name == "exact" else HAPPENINGS)
    twin = None
    for step, what in enumerate(data.draw(st.lists(happenings, min_size=2, max_size=14))):
        if step and data.draw(st.booleans()):
            twin = history.twin()
            same(twin.stream.solver.state(), history.stream.solver.state())
        number = data.draw(st.integers(0, 999))
        for one in (history, twin) if twin is not None else (history,):
            one.happens(what, number)
        if twin is not None:
            same(twin.stream.solver.state(), history.stream.solver.state())
    if twin is not None:
        assert np.array_equal(twin.stream.decision(twin.X), history.stream.decision(history.X))


@names
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_cutting_a_computation_changes_no_bit(name, data):
    seed = data.draw(st.integers(0, 999))
    whole, cut = (History(name, seed, PARAMETERS) for _ in range(2))
    happenings = st.sampled_from((*HAPPENINGS, *EXACT_TOO) if name == "exact" else HAPPENINGS)
    rests = []
    for what in ["learn many", *data.draw(st.lists(happenings, min_size=1, max_size=8))]:
        number = data.draw(st.integers(0, 999))
        for history, work in ((whole, 10**12), (cut, data.draw(st.sampled_from([1, 3000])))):
            before, turns.WORK_MAX = turns.WORK_MAX, work
            try:
                with turns.resting(lambda history=history: rests.append(history)):
                    history.happens(what, number)
                    history.scores = history.stream.decision(history.X)
            finally:
                turns.WORK_MAX = before
        same(whole.stream.solver.state(), cut.stream.solver.state())
        assert np.array_equal(whole.scores, cut.scores)
    assert sum(one is cut for one in rests) > sum(one is whole for one in rests)
