"""Random histories of a model that asks for labels. Rebuilding the model from its log, or from a snapshot, gives the
same bits.
"""

import json

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hinged.service.commands.ask import Ask, LabelBudget, Offer, Peek, choose, hashed
from hinged.service.commands.learn import make_plan
from hinged.service.commands.leases import Release, Renew, Skip, Unskip
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import digests, to_inputs
from hinged.service.data.features.records import canonical
from hinged.service.data.inputs import x_digests
from hinged.service.data.parts import Labelling
from hinged.service.errors import Conflict, NotFound, ServiceError
from hinged.service.model.events import decode_event
from hinged.service.model.events.labelling import CandidatesOffered
from hinged.service.model.events.learning import ClassAdded, ExamplesLearned, PredictionsMade, TrainingFinished
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.settings import Settings
from hinged.solvers.scores.selection import ACTIVE
from tests.helpers.states import digest_of

SIZES = {"cache_bytes": 2**20, "answers_kept": 8}
DENSE = {"features": {"type": "dense", "dim": 2}, "kernel": {"type": "rbf", "gamma": 0.5}}
NAMED = {"features": {"type": "named", "warmup": 20, "columns_max": 8}, "kernel": {"type": "rbf", "gamma": "auto"}}
ANNOTATORS = ("ann", "bob", "eve")
numbers = st.integers(-3, 3)


class History(RuleBasedStateMachine):
    """A model, and a second model that is rebuilt from the bytes of the first model's log, sometimes from a
    snapshot.
    """

    @initialize(
        base=st.sampled_from([DENSE, NAMED]),
        overlap=st.integers(1, 2),
        tie_breakers=st.integers(0, 2),
        pool_max=st.integers(3, 8),
        pending_max=st.integers(0, 4),
        explore=st.sampled_from([0.0, 0.5]),
    )
    def begin(self, base, overlap, tie_breakers, pool_max, pending_max, explore):
        labels = {
            "overlap": overlap,
            "tie_breakers": tie_breakers,
            "pool_max": pool_max,
            "pending_max": pending_max,
            "pending_s": 5,
            "explore": explore,
        }
        text = json.dumps(base | {"C": 10, "labels": labels, "solver": "lasvm"})
        self.configuration = parse_configuration(text, Settings())
        self.overlap = overlap
        self.tie_breakers = tie_breakers if overlap > 1 else 0
        self.models = [Model("m", self.configuration, **SIZES) for _ in range(2)]
        self.now_ms = 1000
        self.serial = 0
        self.late = set()  # candidates and voters whose lease had ended before the answer
        self.commit([ModelCreated(self.configuration.model_dump(mode="json"), self.now_ms)])

    @property
    def model(self):
        return self.models[0]

    def commit(self, events):
        outcomes = []
        for event in events:
            read = decode_event(event.KIND, event.encode())
            outcomes.append(self.models[0].apply(self.models[0].position + 1, event))
            self.models[1].apply(self.models[1].position + 1, read)
        return outcomes

    def do(self, command):
        before = digest_of(self.model)
        try:
            planned = command.plan(self.model, self.now_ms)
        except ServiceError:
            assert digest_of(self.model) == before  # a refusal changes nothing
            raise
        assert digest_of(self.model) == before  # planning changes nothing either
        self.commit(planned.events)
        return planned.answer(self.model)

    def inputs(self, xs):
        if self.configuration.features.type == "named":
            xs = [canonical({"a": x[0], "b": str(x[1]), "c": x[0] > 0 if x[1] else None}) for x in xs]
        else:
            xs = [[float(v) for v in x] for x in xs]
        return to_inputs(xs, self.configuration)

    # -- steps
    # ------------------------------------------------------------------------------------------------------------

    @rule(xs=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4))
    def offer(self, xs):
        ids = [f"c{self.serial + k}" for k in range(len(xs))]
        self.serial += len(xs)
        inputs = self.inputs(xs)
        answer = self.do(Offer(ids, inputs, x_digests(inputs), [None] * len(ids)))
        assert answer["size"] == len(self.model.pool) <= self.configuration.labels.pool_max

    @rule(who=st.sampled_from(ANNOTATORS), n=st.integers(1, 3), request=st.sampled_from([None, "r1", "r2"]))
    def ask(self, who, n, request):
        command = Ask(n, who, "active", 3000, request, 5)
        try:
            questions = self.do(command)["queries"]
        except Conflict:
            assert request is not None
            return
        assert len(questions) <= n
        assert len({q["id"] for q in questions}) == len(questions)
        if request is not None:
            assert self.do(command)["queries"] == questions

    @rule(n=st.integers(1, 3))
    def peek(self, n):
        before = self.model.snapshot()
        self.do(Peek(n, "active", 5))
        assert self.model.snapshot() == before

    @rule(which=st.integers(0, 20), how=st.sampled_from(["renew", "release", "skip", "skip all"]))
    def handle(self, which, how):
        tokens = [lease.token for c in self.model.pool for lease in c.leases]
        token = tokens[which % len(tokens)] if tokens else "none"
        found = self.model.pool.find_lease(token)
        held = found is not None and found[1].open_at(self.now_ms)
        command = {
            "renew": Renew(token, 4000),
            "release": Release(token),
            "skip": Skip(token, for_all=False),
            "skip all": Skip(token, for_all=True),
        }[how]
        if held:
            self.do(command)
        else:
            with pytest.raises(NotFound):
                self.do(command)

    @rule(which=st.integers(0, 20))
    def unskip(self, which):
        skipped = [(c, lease) for c in self.model.pool for lease in c.leases if lease.skipped]
        if not skipped:
            return
        candidate, lease = skipped[which % len(skipped)]
        try:
            answer = self.do(Unskip(lease.token))
        except Conflict:
            return
        assert self.model.pool.find_lease(lease.token)[1].open_at(self.now_ms)
        assert lease.annotator not in candidate.skipped_by
        assert self.do(Unskip(lease.token)) == answer

    @rule(who=st.sampled_from(ANNOTATORS), n=st.integers(1, 3), which=st.integers(0, 3))
    def ask_elsewhere(self, who, n, which):
        mine = [lease.token for _, lease in self.model.pool.held_by(who, self.now_ms)]
        held = mine[:which]
        leases = [q["lease"] for q in self.do(Ask(n, who, "active", 3000, None, 5, tuple(held)))["queries"]]
        assert leases[: len(held)] == held[:n]
        assert not set(leases) & set(mine[which:])

    @rule(which=st.integers(0, 20), y=st.sampled_from(["a", "b", 3]), leased=st.booleans())
    def answer(self, which, y, leased):
        candidates = [c for c in self.model.pool if c.leases or not leased]
        if candidates:
            candidate = candidates[which % len(candidates)]
            lease = candidate.leases[which % len(candidate.leases)] if leased else None
            if lease is not None and not lease.open_at(self.now_ms):
                self.late.add((candidate.id, lease.annotator))  # another annotator may hold its place
            self.learn(LearnRequest([candidate.id], [y], None, [None], [lease and lease.token]))

    @rule(examples=st.lists(st.tuples(numbers, numbers, st.sampled_from("ab")), min_size=1, max_size=6))
    def stream(self, examples):
        inputs = self.inputs([e[:2] for e in examples])
        labels = [e[2] for e in examples]
        self.learn(LearnRequest([None] * len(labels), labels, inputs, digests(inputs, labels)))

    @rule(x=st.tuples(numbers, numbers))
    def predict(self, x):
        inputs = self.inputs([x])
        published = self.model.published()
        decided = published.decide(inputs)
        number, digest = int(decided.numbers[0]), x_digests(inputs)[0]
        self.serial += 1
        waits = Prediction(f"p{self.serial}", inputs, digest, decided.columns[0], number, 0, self.now_ms)
        self.commit([PredictionsMade([waits], self.now_ms)])
        assert len(self.model.pending) <= self.configuration.labels.pending_max

    @rule(back=st.integers(0, 6), y=st.sampled_from("ab"))
    def late_label(self, back, y):
        given = f"p{self.serial - back}"
        waits = self.model.pending.find(given, self.now_ms)
        before = self.model.metrics.figures()["predicted"]
        if waits is None:
            return
        fates = self.learn(LearnRequest([given], [y], None, [None]))
        assert fates[0].new == 0
        assert self.model.pending.find(given, self.now_ms) is None
        assert self.model.answers.find(given).prediction == waits.number
        assert self.model.metrics.figures()["predicted"] == before + (waits.number >= 0 and waits.columns.size > 0)

    def learn(self, request):
        plan = make_plan(self.model, [request], lambda ids: {}, 8, self.now_ms)
        self.commit(plan.events)
        assert not isinstance(plan.planned[0], ServiceError)
        return plan.planned[0]

    @rule()
    def finish(self):
        self.commit([TrainingFinished(self.now_ms)])

    @rule(ms=st.integers(1, 4000))
    def wait(self, ms):
        self.now_ms += ms

    @precondition(lambda self: self.model.learned)
    @rule()
    def restore(self):
        self.models[1] = Model.restore("m", self.models[1].snapshot(), **SIZES)

    # -- invariants
    # -------------------------------------------------------------------------------------------------------

    @invariant()
    def a_fold_of_the_bytes_is_the_model(self):
        assert self.models[1].snapshot() == self.models[0].snapshot()

    @invariant()
    def nobody_holds_what_another_does(self):
        for candidate in self.model.pool:
            held = candidate.open_leases(self.now_ms)
            assert len({lease.annotator for lease in held}) == len(held)
            labels = [label for _, label in candidate.votes]
            late = sum((candidate.id, voter) in self.late for voter, _ in candidate.votes)
            assert len(held) + len(labels) - late <= max(self.overlap, len(labels) + 1)
            assert len({voter for voter, _ in candidate.votes}) == len(labels) < self.overlap + self.tie_breakers
            if len(labels) >= self.overlap:  # there is no majority
                assert len(set(labels)) == len(labels)
            assert self.model.answers.find(candidate.id) is None


TestHistory = pytest.mark.long(History.TestCase)
TestHistory.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.long
def test_the_leader_of_a_race_chooses_the_questions_and_the_mean_answers():
    draw = np.random.default_rng(0)
    X = draw.uniform(-3, 3, (360, 2))
    labels = ["yes" if value > 0 else "no" for value in np.sin(3 * X[:, 0]) + np.cos(3 * X[:, 1])]
    body = {**DENSE, "solver": "auto", "labels": {"explore": 0.0, "pool_max": 1000}}
    configuration = parse_configuration(json.dumps(body), Settings())
    model = Model("m", configuration, **SIZES)
    events = [ModelCreated(configuration.model_dump(mode="json"), 0), ClassAdded("no"), ClassAdded("yes")]
    inputs = to_inputs(X.tolist(), configuration)
    known, offered = (inputs.part(0, 60), inputs.part(60, 360))
    numbers = np.array([label == "yes" for label in labels[:60]], np.int32)
    contents = digests(known, labels[:60])
    events.append(ExamplesLearned(1, [None] * 60, numbers, known, contents, 0, np.zeros(60, np.uint8)))
    ids = [str(r) for r in range(300)]
    events.append(CandidatesOffered(ids, offered, x_digests(offered), [None] * 300, 0))
    for position, event in enumerate(events, 1):
        model.apply(position, event)
    (chosen,) = choose(model, list(model.pool), 1, ACTIVE, 1000)
    rows = model.published().rows(offered)
    machine = model.solver.leader.machine
    leader, mean = (
        np.abs(each[:, 0]) for each in (machine.decision(rows.under(machine.kernel)), model.solver.decision(rows))
    )
    assert chosen.candidate.id == ids[leader.argmin()] != ids[mean.argmin()]
    assert chosen.score == leader.min()


def test_the_label_budget_is_kept_whatever_share_lies_inside_the_margin():
    for budget, explore, share in ((0.1, 0.05, 0.5), (0.3, 0.0, 0.9), (0.05, 1.0, 0.2), (0.5, 0.2, 0.1)):
        wanting = LabelBudget(7, Labelling(budget=budget, explore=explore))
        inside = np.random.default_rng(1).random(20_000) < share
        wishes = wanting.wishes([str(k) if k % 2 else None for k in range(20_000)], inside.tolist())
        wanted = np.array([w.wanted for w in wishes])
        expected = min(budget, explore * budget + (1 - explore * budget) * share)
        assert wanted.mean() <= budget * 1.08 + 0.002
        assert wanted.mean() == pytest.approx(expected, rel=0.1)
        # The reported probability is the true probability that a label is wanted.
        told = np.array([w.probability for w in wishes])
        assert wanted[inside].mean() == pytest.approx(told[inside].mean(), abs=0.02)
        assert wanted[~inside].mean() == pytest.approx(told[~inside].mean(), abs=0.02)


def test_all_labels_are_wanted_where_the_budget_is_all_and_every_question_is_drawn_at_random():
    wishes = LabelBudget(3, Labelling(budget=1.0, explore=1.0)).wishes(["one", "two"], [True, False])
    assert wishes == [(True, 1.0, "explore", 2, 1.0)] * 2


def test_labels_weigh_in_estimates_only_if_each_label_may_come():
    """Without exploring, predictions outside the margin never get a label."""
    for explore in (0.0, 0.5):
        for wish in LabelBudget(3, Labelling(budget=0.5, explore=explore)).wishes([*"abcdefgh"], [True, False] * 4):
            assert wish.chance == (wish.probability if wish.wanted and explore else 0.0)
    assert {wish[3:] for wish in LabelBudget(3, Labelling()).wishes(["a", "b"], [True, False])} == {(0, 0.0)}


def test_the_same_example_gets_the_same_draw():
    first, second = (LabelBudget(3, Labelling(budget=0.5)).wishes(["one"], [True])[0] for _ in range(2))
    assert first == second
    assert hashed(3, b"one") != hashed(4, b"one")
