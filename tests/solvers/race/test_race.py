"""The race: arms compared with separate machines; leader and removed arms compared with plain loops; its state."""

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from hinged.solvers.core.cores import on_cores
from hinged.solvers.core.elementary import exp
from hinged.solvers.core.families import LAPLACIAN
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.states import StateReader
from hinged.solvers.dual.gap import GapSVM
from hinged.solvers.dual.lasvm import LASVM
from hinged.solvers.race import arms, leaving, race
from hinged.solvers.race.arms import Arm, Setting, first_settings, near, read_settings
from hinged.solvers.race.evidence import ENOUGH, RAREST, evidence_of
from hinged.solvers.race.leaving import MOST, SURELY, SURELY_LATE, staying
from hinged.solvers.race.race import LOOK, NEWCOMERS, PATIENCE
from hinged.solvers.race.standings import (
    AHEAD,
    BEHIND,
    BOTTOM,
    DOUBT,
    DOUBT_MAX,
    FADING,
    HEAVIEST,
    LEAD,
    LIGHTEST,
    LOG_FADING,
    SHARPNESS,
    accuracies,
    count,
    joined_by,
    kept,
    new_standings,
    read_standings,
    state_of,
    surely_behind,
    total_of,
)
from tests.helpers.solvers.streams import same, settled, stream_of, two_moons

RBF = make_kernel("rbf", 0.5)


def wavy(n, seed=0, noise=0.1):
    """Return a stream that needs a larger gamma than 1/2."""
    random = np.random.default_rng(seed)
    X = settled(random.uniform(-3, 3, (n, 2)))
    return X, ((np.sin(3 * X[:, 0]) + np.cos(3 * X[:, 1]) > 0) ^ (random.random(n) < noise)).astype(int)


def raced(X, classes, batch=40, **parameters):
    return stream_of("auto", X, classes, batch=batch, **{"kernel": RBF, "C": 1.0, "announced": 2, **parameters})


@pytest.mark.parametrize("classes", [2, 4])
def test_arms_on_several_cores_give_the_same_bits(classes):
    X, y = wavy(3000)
    numbers = y if classes == 2 else (y + 2 * (X[:, 0] > 0)).astype(int)

    def learned(count):
        with on_cores(count):
            found = raced(X, numbers, batch=700, announced=classes).solver
            return found, found.finish()

    (alone, done), (spread, done_spread) = learned(1), learned(3)
    same(alone.state(), spread.state())
    assert done == done_spread
    assert len(alone.arms) > 1


def counting(correct, leader):
    """Return how much each arm counts beside the leader, if each answer counts 1."""
    more = correct - correct[leader]
    return np.where(more >= BOTTOM, np.exp(SHARPNESS * more), 0.0)


def led(right, weights, evidence=None, favoured=-1):
    """Compute the standings by a plain loop over the rows of right (m, A), bool or credit, their weights and evidence.

    favoured: the arm that is ahead by AHEAD answers, less by the evidence of the example.

    Return the leader before each answer; at the end correct, ahead and leader; the value of an answer; and sum w.
    """
    arms, leaders = right.shape[1], []
    correct, ahead, leader, total, squares = np.zeros(arms), np.zeros((arms, arms)), 0, 0.0, 0.0
    evidence = np.ones(len(right)) if evidence is None else evidence
    answer, first = 1.0, np.argmax(np.append((weights != 1.0) | (evidence != 1.0), True))
    for r, (row, weight) in enumerate(zip(right.astype(float), weights, strict=True)):
        leaders.append(leader)
        fading = FADING if evidence[r] == 1.0 else float(exp(LOG_FADING * evidence[r]))
        correct = fading * correct + weight * row
        ahead = fading * ahead + weight * np.maximum(0.0, row[:, None] - row)
        if r == first:
            total = squares = total_of(r)
        total, squares = fading * total + weight, fading * squares + weight**2
        answer = squares / total if r >= first else 1.0
        for a in range(arms):
            apart = answer * (ahead[a, leader] + ahead[leader, a])
            given = AHEAD * (1.0 - evidence[r]) * answer
            lead = correct[a] - correct[leader] + given * ((a == favoured) - (leader == favoured))
            if lead > LEAD * answer + min(DOUBT * np.sqrt(apart), DOUBT_MAX * answer):
                leader = a
    return np.array(leaders, np.int64), (correct, ahead, leader), answer, total


@pytest.mark.parametrize("rules", [4, 5])
def test_answers_are_those_of_the_arm_that_led_before_each_example_or_the_mean_of_all(rules):
    X, classes = wavy(240)
    race = raced(X, classes, rules=rules).learn()
    alone = []
    for setting in first_settings(RBF, rules):
        arm = Arm(setting, RBF, 2, 1.0, dtype=race.dtype)
        arm.machine.add_class()
        arm.machine.add_class()
        scores = [
            arm.learn(race.rows(X[b : b + 40]).under(arm.machine.kernel), classes[b : b + 40], np.arange(b, b + 40), b)
            for b in range(0, 240, 40)
        ]
        alone.append(np.concatenate(scores)[:, 0])
    scores = np.array(alone).T
    right = (scores > 0) == classes[:, None]
    if rules == 5:
        right &= scores != 0
    leaders, (correct, _, _), _, _ = led(right, np.ones(240))
    for r, answer in enumerate(np.concatenate(race.scores)[:, 0]):
        if rules == 4:
            assert answer == scores[r, leaders[r]]
            continue
        before = led(right[:r], np.ones(r))[1][0]
        share = counting(before, leaders[r])
        np.testing.assert_allclose(answer, share @ scores[r] / share.sum(), rtol=1e-12)
    assert len(set(leaders.tolist())) > 1
    assert len(set(np.argmax(alone, axis=0))) > 1
    np.testing.assert_array_equal(race.solver.standings.correct, correct)


def test_it_finds_a_better_setting_and_ends_with_few_arms():
    X, classes = wavy(4000)
    race = raced(X, classes).learn()
    plain = stream_of("lasvm", X, classes, kernel=RBF, batch=40, C=1.0, announced=2).learn()
    later = slice(2000, None)
    rates = [((np.concatenate(s.scores)[:, 0] > 0) == classes)[later].mean() for s in (race, plain)]
    assert rates[0] > rates[1] + 0.02
    assert race.solver.leader.setting != Setting(1.0)
    assert len(race.solver.arms) == MOST[-1][1]
    assert sorted(arm.setting.half_life for arm in race.solver.arms) == [0, 250, 1000]


def test_after_a_change_the_arm_that_fades_leads():
    X, classes = two_moons(6000, seed=3)
    classes = (classes > 0).astype(int)
    classes[3000:] ^= 1
    race = raced(X, classes, batch=50).learn()
    right = (np.concatenate(race.scores)[:, 0] > 0) == classes
    assert race.solver.leader.fades
    assert right[4500:].mean() > 0.9
    plain = stream_of("lasvm", X, classes, kernel=RBF, batch=50, C=1.0, announced=2).learn()
    assert right[3000:].mean() > ((np.concatenate(plain.scores)[:, 0] > 0) == classes)[3000:].mean() + 0.05


def test_where_a_fading_arm_leads_the_best_arm_of_each_other_half_life_stays():
    random = np.random.default_rng(0)
    X = settled(random.uniform(-3, 3, (3500, 2)))
    turn = np.linspace(0, 4 * np.pi, 3500)
    race = raced(X, (X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn) > 0).astype(int), batch=50).learn()
    assert race.solver.leader.fades
    assert len(race.solver.arms) == MOST[-1][1]
    assert sorted(arm.setting.half_life for arm in race.solver.arms) == [0, 250, 1000]


@pytest.mark.long
def test_the_race_is_opened_again_near_its_leader_and_newcomers_know_what_it_holds():
    X, classes = wavy(PATIENCE + 2 * LOOK)
    race = raced(X, classes, batch=LOOK)
    race.learn(0, PATIENCE - LOOK)
    solver = race.solver
    before = {arm.setting for arm in solver.arms}
    assert solver.openings == 0
    race.learn(PATIENCE - LOOK, PATIENCE)
    assert (solver.openings, solver.opened) == (1, PATIENCE)
    leader, newcomers = solver.leader, [arm for arm in solver.arms if arm.setting not in before]
    assert 1 <= len(newcomers) <= NEWCOMERS
    assert {arm.setting for arm in newcomers} <= set(near(leader.setting, RBF))
    at = solver.arms.index(leader)
    for arm in newcomers:
        assert solver.standings.correct[solver.arms.index(arm)] == solver.standings.correct[at] - BEHIND
        assert set(arm.machine.known()) <= set(leader.machine.known())
        scores = arm.machine.decision(race.rows(X[-LOOK:]))[:, 0]
        assert ((scores > 0) == classes[-LOOK:]).mean() > 0.65
    solver.examine()
    race.learn(PATIENCE, PATIENCE + 2 * LOOK)
    solver.examine()


def test_a_fading_arm_holds_what_its_half_lives_leave_with_boxes_of_their_age():
    X, classes = wavy(700)
    arm = Arm(Setting(3.0, 1.0, 48), RBF, 2, 1.0)
    for _ in range(2):
        arm.machine.add_class()
    for b in range(0, 700, 7):
        arm.learn(rows_from_dense(X[b : b + 7], RBF, 2), classes[b : b + 7], np.arange(b, b + 7), b)
        keys, held = arm.machine.keys(), arm.machine
        learned = b + 7
        assert keys.size
        assert keys.min() >= learned - 5 * 48 - 4 * 3
        widths = np.maximum(held.machine.upper, -held.machine.lower)[0, : held.slots]
        age = learned // 3 - keys // 3  # in steps of 1/16 half-life
        slots = np.flatnonzero(held.machine.class_of[: held.slots] >= 0)
        np.testing.assert_allclose(widths[slots], 3.0 * 2.0 ** (-age / 16), rtol=1e-9)


@pytest.mark.long
def test_with_wrong_labels_an_arm_with_the_ramp_leads_and_answers_better_than_arms_with_the_hinge(monkeypatch):
    X, right = wavy(3000, noise=0.0)
    told = right ^ (np.random.default_rng(1).random(3000) < 0.25)
    race = raced(X, told, batch=50).learn()
    assert race.solver.leader.solver == "lasvm-nc"
    assert [arm["solver"] for arm in race.solver.arms_in_figures() if arm["leads"]] == ["lasvm-nc"]
    monkeypatch.setattr(arms, "BOTH", tuple(dict.fromkeys(s._replace(ramp=False) for s in arms.BOTH)))
    hinge = raced(X, told, batch=50).learn()
    rates = [((np.concatenate(s.scores)[:, 0] > 0) == right).mean() for s in (race, hinge)]
    assert rates[0] > rates[1] + 0.01


def test_points_without_a_coefficient_stay_for_a_while_and_less_long_in_a_fading_arm():
    X = settled(np.random.default_rng(0).uniform(-1, 1, (2600, 2)))
    X[:, 0] += np.sign(X[:, 0])
    classes = (X[:, 0] > 0).astype(int)
    for setting, most in ((Setting(1.0), arms.IDLE), (Setting(3.0, 1.0, 1000), arms.IDLE_FADING)):
        for bound in (100, 2000):
            arm = Arm(setting, RBF, 2, 1.0, idle_max=bound)
            arm.machine.add_class()
            arm.machine.add_class()
            arm.learn(rows_from_dense(X, RBF, 2), classes, np.arange(2600), 0)
            assert arm.machine.live <= min(bound, most)


def test_a_newcomer_too_steep_for_the_ramp_gets_the_hinge():
    for rules in (4, 5):
        steps = list(near(Setting(10.0, 1.0, ramp=True), RBF, rules))
        assert Setting(10.0, 4.0) in steps
        assert Setting(10.0, 0.25, ramp=True) in steps
        assert next(near(Setting(1.0, 4.0), RBF, rules)) == Setting(1.0, 4.0, ramp=True)
        for setting in first_settings(RBF, rules):
            assert setting.allowed(rules)
            assert all(step.allowed(rules) or step.ramp or step.half_life for step in near(setting, RBF, rules))
        assert arms.RARE.allowed(rules) == (rules > 4)


@pytest.mark.parametrize("rules", [1, 2])
def test_a_race_by_former_rules_has_arms_of_one_kernel_and_its_state_has_four_fields(rules):
    X, classes = wavy(PATIENCE + LOOK)
    race = raced(X, classes, batch=LOOK, rules=rules)
    assert [arm.setting for arm in race.solver.arms] == list(arms.RADIAL)
    race.learn()
    assert {arm.machine.kernel.code for arm in race.solver.arms} == {RBF.code}
    assert race.solver.state()["settings"].shape[1] == 4
    for setting in (Setting(1.0, kernel=LAPLACIAN), Setting(1.0, kernel=7)):
        wrong = np.vstack((race.solver.state()["settings"][:1], setting[:4]))
        with pytest.raises(ValueError, match=r"has no arm|a setting must be"):
            read_settings(np.hstack((wrong, [[-1.0], [setting.kernel]])), RBF, 2)


def test_arms_with_the_ramp_take_few_steps_for_an_example_and_all_by_former_rules():
    X, classes = wavy(300, noise=0.3)
    most = {}
    for rules in (3, 4):
        race = raced(X, classes, batch=1, rules=rules)
        ramped = [arm.machine for arm in race.solver.arms if arm.setting.ramp]
        taken = []
        for k in range(200):
            before = [machine.certificate()["steps"] for machine in ramped]
            race.learn(k, k + 1)
            taken += [machine.certificate()["steps"] - steps for machine, steps in zip(ramped, before, strict=True)]
        most[rules] = max(taken)
    assert most[4] <= 1 + arms.STEPS_MAX < most[3]


def test_predictions_contributions_and_rows_are_those_of_the_mean_of_arms_of_two_kernels():
    X, classes = wavy(60)
    race = raced(X, classes).learn()
    solver, rows = race.solver, race.rows(X[:20])
    share = counting(solver.standings.correct, solver.standings.leader[0])
    scores = np.array([machine.decision(rows.under(machine.kernel))[:, 0] for machine in solver.machines])
    expected = share @ scores / share.sum()
    counted = {machine.kernel.code for machine, each in zip(solver.machines, share, strict=True) if each}
    assert counted == {RBF.code, LAPLACIAN}
    np.testing.assert_allclose(solver.decision(rows)[:, 0], expected, rtol=1e-12)
    found = solver.contributions(race.rows(X[:1]))
    bias = share @ [machine.view().b[0] for machine in solver.machines] / share.sum()
    np.testing.assert_allclose(found.parts.sum() + bias, expected[0], rtol=1e-6)
    assert len(set(found.keys.tolist())) == found.keys.size
    assert np.array_equal(found.classes, classes[found.keys])
    key = int(race.solver.keys()[0])
    assert race.solver.row_of(key).fits(RBF, race.dtype)
    assert race.solver.row_of(key).norms[0] == race.rows(X[key : key + 1]).norms[0]


def test_predictions_do_not_compute_an_arm_that_is_clearly_behind():
    X, classes = wavy(4000)
    race = raced(X, classes).learn()
    solver = race.solver
    solver.standings.correct[:] -= 20.0 * (np.arange(len(solver.arms)) != solver.standings.leader[0])
    assert solver.view().size == solver.leader.machine.view().size
    assert np.array_equal(solver.decision(race.rows(X[:5])), solver.leader.machine.decision(race.rows(X[:5])))


@pytest.mark.long
def test_exchanging_two_classes_negates_the_decision_values_of_a_race_exactly():
    X, classes = wavy(1800)
    one, other = (raced(X, given, points_max=300, when_full="remove").learn() for given in (classes, 1 - classes))
    assert np.array_equal(np.concatenate(one.scores), 0.0 - np.concatenate(other.scores))


def test_a_state_from_before_arms_had_a_loss_goes_on():
    X, classes = wavy(600)
    kernel = make_kernel("linear")
    first, second = (stream_of("auto", X, classes, kernel=kernel, announced=n, C=1.0) for n in (2, 0))
    state = first.learn(0, 400).solver.state()
    second.solver.load({**state, "settings": state["settings"][:, :3], "led": state["led"][:3]})
    same(second.solver.state(), state)


@given(classes=st.lists(st.integers(0, 2), max_size=80), before=st.lists(st.integers(0, 500), min_size=3, max_size=3))
def test_evidence_falls_with_the_share_of_examples_outside_the_most_frequent_class(classes, before):
    expected, weights, seen = [], [], list(before)
    for number in classes:
        share = (sum(seen) - max(seen) + 1) / (sum(seen) + 2)
        expected.append(min(1.0, ENOUGH * share))
        weights.append(min(RAREST, (max(seen) + 1) / (seen[number] + 1)))
        seen[number] += 1
    found, balance = evidence_of(np.array(before), np.array(classes, np.int64))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(balance, weights, rtol=1e-12)
    assert (found == 1.0).all() or min(sum(before) - max(before), 1) <= 0.1 * (sum(before) + len(classes) + 2)


def test_late_labels_with_weights_count_as_weights_and_late_labels_do():
    X, classes = wavy(300)
    races = [raced(X, classes) for _ in range(4)]
    asked = [[None if r % 3 else b"" for r in range(b, b + 50)] for b in range(0, 300, 50)]
    weights = np.where(np.arange(300) % 7 == 0, 2.0, 1.0)
    for b, then in zip(range(0, 300, 50), asked, strict=True):
        batch = slice(b, b + 50)
        example = races[0].rows(X[batch]), classes[batch], np.arange(b, b + 50)
        races[0].solver.learn_late(*example, then)
        races[1].solver.learn_late(*example, then, np.ones(50))
        races[2].solver.learn_late(*example, [None] * 50, weights[batch])
        races[3].solver.learn_weighted(*example, weights[batch])
    same(races[0].solver.state(), races[1].solver.state())
    same(races[2].solver.state(), races[3].solver.state())


@pytest.mark.long
def test_where_one_class_is_rare_arms_stay_until_enough_of_it_has_been_seen():
    X, _ = wavy(3000, noise=0.0)
    classes = (np.sin(3 * X[:, 0]) + np.cos(3 * X[:, 1]) > 1.95).astype(int)
    assert 10 < classes.sum() < 60
    rare = raced(X, classes, batch=50).learn()
    assert len(rare.solver.arms) > MOST[1][1]
    assert rare.solver.evidence < 0.5 * rare.solver.learned
    former = raced(X, classes, batch=50, rules=2).learn()
    assert len(former.solver.arms) <= 3
    half = raced(X, classes, batch=17)
    half.learn(0, 1000)
    again = raced(X, classes, batch=50)
    again.learn(0, 1000)
    same(half.solver.state(), again.solver.state())


@pytest.mark.parametrize("kernel", [RBF, make_kernel("laplacian", 0.5)])
def test_where_one_class_is_rare_the_favoured_arm_leads_until_another_is_surely_better(kernel):
    X, classes = rare(400, 0)
    race = raced(X, classes, kernel=kernel).learn()
    machine = race.solver.leader.machine
    assert (race.solver.leader.solver, machine.C, machine.kernel.code, machine.kernel.gamma) == (
        "lasvm-nc",
        10.0,
        LAPLACIAN,
        kernel.gamma,
    )
    for rules in (2, 4):
        assert raced(X, classes, kernel=kernel, rules=rules).learn().solver.leader.setting == first_settings(kernel)[0]
    standings = race.solver.standings
    place = int(standings.leader[0])
    credit = np.ones((6, len(race.solver.arms)))
    credit[:, place] = 0.0
    credit[:, place - 1] = 1.0
    leaders, _ = count(standings, credit, np.ones(6), np.full(6, 0.1), 400, place)
    assert leaders[0] == leaders[1] == place
    assert standings.leader[0] != place


ANSWERS = st.lists(
    st.tuples(
        st.lists(st.booleans(), min_size=4, max_size=4),
        st.sampled_from([1.0, 1.0, 0.25, 3.0, 49.0]),
        st.sampled_from([1.0, 1.0, 0.3, 0.002]),
    ),
    max_size=60,
)


@given(
    answers=ANSWERS,
    alike=st.booleans(),
    some=st.sets(st.integers(0, 3), min_size=1),
    cut=st.integers(0, 60),
    favoured=st.integers(-1, 3),
)
@settings(deadline=None)
def test_counts_and_leaders_are_those_of_a_plain_loop(answers, alike, some, cut, favoured):
    right = np.array([row for row, _, _ in answers], bool).reshape(-1, 4)
    weights = np.array([1.0 if alike else weight for _, weight, _ in answers])
    evidence = np.array([1.0 if alike else each for _, _, each in answers])
    standings, whole = new_standings(4), new_standings(4)
    arrays = right, weights, evidence
    parts = (*(a[:cut] for a in arrays), 0), (*(a[cut:] for a in arrays), min(cut, len(right)))
    leaders, shares = map(np.concatenate, zip(*(count(standings, *part, favoured) for part in parts), strict=True))
    assert all(map(np.array_equal, count(whole, right, weights, evidence, 0, favoured), (leaders, shares)))
    same(state_of(whole), state_of(standings))
    assert ("weighed" in state_of(standings)) == bool(((weights != 1.0) | (evidence != 1.0)).any())
    expected, (correct, ahead, leader), answer, total = led(right, weights, evidence, favoured)
    assert np.array_equal(leaders, expected)
    assert standings.leader[0] == leader
    assert np.array_equal(standings.correct, correct)
    assert np.array_equal(standings.ahead, ahead)
    behind = surely_behind(standings, SURELY)
    for a in range(4):
        won, lost = ahead[leader, a], ahead[a, leader]
        assert behind[a] == (won > lost and (won - lost) / np.sqrt((won + lost) * answer) > SURELY)
    if len(right):
        np.testing.assert_allclose(accuracies(standings, len(right)), correct / total)
    arms = np.array(sorted({leader, *some}))
    left = kept(standings, arms)
    assert arms[left.leader[0]] == leader
    more = joined_by(left, 2)
    behind = max(0.0, min(BEHIND * answer, *(correct - ahead[:, leader])[arms], correct[leader]))
    assert np.allclose(more.correct[-2:], correct[[leader, leader]] - behind, atol=1e-9)
    assert np.allclose((more.ahead[-1, left.leader[0]], more.ahead[left.leader[0], -1]), (0, behind))
    assert np.array_equal(more.ahead[-1, : arms.size], left.ahead[left.leader[0]])
    for found in (standings, left, more):
        same(state_of(read_standings(StateReader(state_of(found)), found.correct.size, len(right))), state_of(found))


@given(
    answers=ANSWERS,
    kinds=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    since=st.sampled_from([250.0, 525.0, 1_025.0, 2_025.0, 6_025.0]),
    late=st.booleans(),
    former=st.booleans(),
)
@settings(deadline=None)
def test_the_best_arm_of_each_kind_stays_and_others_only_if_there_is_room_and_they_are_not_behind(
    answers, kinds, since, late, former
):
    right = np.array([row for row, _, _ in answers], bool).reshape(-1, 4)
    standings = new_standings(4)
    count(standings, right, np.ones(len(right)), np.ones(len(right)), 0)
    stay = staying(standings, kinds, since, late=late, former=former)
    leader = int(standings.leader[0])
    order = [leader, *sorted((a for a in range(4) if a != leader), key=lambda a: -standings.correct[a])]
    best = [next(a for a in order if kinds[a] == kind) for kind in sorted(set(kinds))]
    limits = leaving.MOST_LATE if late else leaving.FORMER_MOST if former else MOST
    most = min((limit for evidence, limit in limits if since > evidence), default=4)
    behind = surely_behind(standings, SURELY_LATE if late else SURELY)
    assert stay == sorted(set(stay))
    assert set(best) <= set(stay)
    assert len(stay) <= max(most, len(best))
    for rank, a in enumerate(order):
        may = rank < leaving.LEAST or (rank < most and not behind[a])
        assert a not in stay or a in best or may
        assert a in stay or not may or len(stay) >= most


@given(
    weights=st.lists(st.sampled_from([1e-300, LIGHTEST, 1.0, HEAVIEST, 1e300]), min_size=1, max_size=40),
    right=st.lists(st.booleans(), min_size=3, max_size=40),
)
@settings(deadline=None)
def test_any_weights_keep_counts_that_a_state_can_hold(weights, right):
    rows = np.array([right[r % len(right) :] + right[: r % len(right)] for r in range(len(weights))], bool)[:, :3]
    standings = new_standings(3)
    with np.errstate(all="raise"):
        count(standings, rows, np.array(weights), np.ones(len(rows)), 0)
        more = joined_by(standings, 1)
        for found in (standings, more):
            read_standings(StateReader(state_of(found)), found.correct.size, len(weights))
            assert all(0.0 <= rate <= 1.0 for rate in accuracies(found, len(weights)))


def test_chance_removes_hardly_any_of_equal_arms_at_first():
    random, arms, behind = np.random.default_rng(0), len(first_settings(RBF)), []
    for _ in range(100):
        right = (random.random((LOOK, 1)) < 0.8) ^ (random.random((LOOK, arms)) < 0.06)
        standings = new_standings(arms)
        count(standings, right, np.ones(LOOK), np.ones(LOOK), 0)
        behind.append(surely_behind(standings, SURELY).sum())
    assert np.mean(behind) < 0.05 * arms


def test_two_answers_more_take_no_lead_where_arms_disagree_much_and_three_do():
    standings = new_standings(2)
    first = np.array([[True, False], [False, True]] * 4)
    for rows, leader in ((first, 0), ([[False, True]] * 2, 0), ([[False, True]], 1)):
        count(standings, np.array(rows), np.ones(len(rows)), np.ones(len(rows)), 0)
        assert standings.leader[0] == leader


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf", "laplacian"])
def test_every_kernel_races(kernel):
    X, classes = wavy(600)
    stream = stream_of("auto", X, classes, kernel=make_kernel(kernel, 0.5), batch=30, announced=2, C=1.0).learn()
    stream.solver.examine()
    assert len({arm.machine.kernel.gamma for arm in stream.solver.arms}) == 1 or kernel in {"rbf", "laplacian"}


def test_a_further_epoch_does_not_change_the_standings():
    X, classes = wavy(500)
    race = raced(X, classes).learn()
    before = race.solver.standings.correct.copy()
    race.learn(0, 200, again=True)
    assert np.array_equal(race.solver.standings.correct, before)
    assert race.solver.learned == 500


RARE = 49.0


def rare(n, seed):
    """Return a stream in which 1/50 of the examples belong to the second class, with weight 49."""
    X, _ = wavy(60 * n, seed, noise=0.0)
    near = np.sin(3 * X[:, 0]) + np.cos(3 * X[:, 1]) > 0.7
    random = np.random.default_rng(seed)
    chosen = np.concatenate((np.flatnonzero(near)[: n // 50], np.flatnonzero(~near)[: n - n // 50]))
    random.shuffle(chosen)
    return X[chosen], near[chosen].astype(int)


def weighted_accuracy(X, classes, *, by_class, **parameters):
    """Return the weighted accuracy of a race with these rules, with weights of classes or of single examples."""
    weights = np.where(classes == 1, RARE, 1.0)
    race = raced(X, classes, **parameters, **({"announced": 0} if by_class else {"weights": weights}))
    for weight in (1.0, RARE) if by_class else ():
        race.solver.add_class(weight)
    race.learn()
    right = (np.concatenate(race.scores)[:, 0] > 0) == classes
    return weights @ right / weights.sum()


@pytest.mark.long
@pytest.mark.parametrize("by_class", [True, False])
def test_the_arm_that_is_right_on_the_heavier_examples_leads(by_class):
    found = []
    for seed in range(2):
        X, classes = rare(2000, seed)
        found.append([weighted_accuracy(X, classes, by_class=by_class, rules=rules) for rules in (1, 2)])
    former, present = np.mean(found, axis=0)
    assert present > former + 0.03


@pytest.mark.long
def test_with_balanced_accuracy_as_the_goal_the_leader_is_better_at_a_rare_class():
    found = []
    for seed in range(3):
        X, classes = rare(2000, seed)
        for goal in ("accuracy", "balanced"):
            race = raced(X, classes, goal=goal).learn()
            right = (np.concatenate(race.scores)[:, 0] > 0) == classes
            found.append((right[classes == 1].mean() + right[classes == 0].mean()) / 2)
    assert np.mean(found[1::2]) > np.mean(found[::2]) + 0.02


@pytest.mark.long
def test_balanced_accuracy_as_the_goal_counts_weights_of_examples_and_no_weights_of_classes():
    X, classes = rare(1000, 3)
    doubled, plain, batched = (
        raced(X, classes, goal="balanced", weights=np.full(1000, weight), batch=batch)
        for weight, batch in ((2.0, 50), (1.0, 50), (1.0, 7))
    )
    by_class = raced(X, classes, goal="balanced", announced=0)
    for weight in (1.0, RARE):
        by_class.solver.add_class(weight)
    for each in (doubled, plain, batched, by_class):
        each.learn(0, 200)
    same(plain.solver.state(), batched.solver.state())
    weighed = [each.solver.standings.weighed for each in (plain, doubled, by_class)]
    np.testing.assert_allclose(weighed[1], weighed[0] * [2.0, 4.0], rtol=1e-12)
    np.testing.assert_allclose(weighed[2], weighed[0], rtol=1e-12)


@pytest.mark.long
def test_weights_of_examples_and_of_their_classes_make_the_same_race():
    X, classes = rare(1000, 3)
    weights = np.where(classes == 1, RARE, 1.0)
    of_examples = raced(X, classes, weights=weights).learn()
    of_classes = raced(X, classes, batch=7, announced=0)
    for weight in (1.0, RARE):
        of_classes.solver.add_class(weight)
    of_classes.learn()
    same(state_of(of_examples.solver.standings), state_of(of_classes.solver.standings))
    figures = of_classes.solver.arms_in_figures()
    assert figures == of_examples.solver.arms_in_figures()
    assert all(0.0 < arm["accuracy"] < 1.0 for arm in figures)


def turning(n):
    """Return a plane that rotates one and a half times."""
    random = np.random.default_rng(0)
    X, turn = settled(random.standard_normal((n, 4))), np.linspace(0, 3 * np.pi, n)
    return X, (X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn) > 0).astype(int)


def test_a_further_epoch_brings_nothing_back_that_has_faded():
    X, classes = turning(3000)
    later, rates = slice(2800, 3000), {}
    for rules in (1, 2):
        race = raced(X, classes, batch=50, rules=rules).learn(0, 2800)
        assert race.solver.leader.fades
        before = race.decision(X[later])
        race.learn(0, 2800, again=True)
        after = race.decision(X[later])
        rates[rules] = [((scores[:, 0] > 0) == classes[later]).mean() for scores in (before, after)]
        if rules == 2:
            np.testing.assert_array_equal(race.scores[-1], race.decision(X[2750:2800]))
            assert np.array_equal(before, after)
    assert rates[1][1] < rates[1][0] - 0.03
    assert rates[2][1] == rates[2][0]


def damaged(state):
    """Yield states that a race cannot reach."""
    yield "settings", np.zeros((0, 3))
    yield "settings", np.repeat(state["settings"][:1], len(state["settings"]), axis=0)
    yield "settings", state["settings"] * 1e6
    yield "settings", state["settings"] + [[0, 0, 7, 0, 0]]
    yield "settings", state["settings"] + [[0, 0, 0, 2, 0]]
    yield "settings", state["settings"] + [[0, 0, 0, 0, 2]]
    yield "settings", state["settings"] * [[1, 1, 0, 0, 1]] + [[0, 0, 1000, 1, 0]]
    yield "settings", state["settings"] * [[1, 0, 1, 0, 1]] + [[0, 64, 0, 1, 0]]
    yield "settings", state["settings"][:, :2]
    yield "correct", state["correct"] + 200
    yield "correct", state["correct"] + np.eye(len(state["correct"]))[0]
    yield "ahead", state["ahead"] + np.eye(len(state["ahead"]))
    yield "ahead", state["ahead"] + np.eye(len(state["ahead"]), k=1)
    yield "leader", np.array([len(state["correct"])])
    yield "counts", np.array([600, 601, 0, PATIENCE])
    yield "counts", np.array([-1, 0, 0, PATIENCE])
    yield "counts", np.array([600, 0, 0, 7])
    yield "evidence", np.array([0.0, 500.0, 601.0])
    yield "evidence", np.array([600.0, 500.0, 600.0])
    yield "evidence", np.array([0.0, 0.0, 600.0])
    yield "weighed", np.array([100.0, 9.0])
    yield "weighed", np.array([1.0, 1e70])
    yield "weighed", np.array([1.0, 1.0])
    yield "weighed", np.array([0.0, 0.0])
    yield "late", np.array([602.0, 0.0])
    yield "late", np.array([0.0, -1.0])
    yield "serials", np.zeros_like(state["serials"])
    yield "serials", state["serials"] + 2**16
    yield "weights", state["weights"] * 2
    yield "0.alpha", state["0.alpha"] * 1e9


def test_a_state_that_no_race_can_reach_is_refused_and_changes_nothing():
    X, classes = wavy(600)
    race = raced(X, classes).learn()
    before = race.solver.state()
    for name, array in damaged(before):
        with pytest.raises(ValueError, match=r"\w"):
            race.solver.load({**before, name: array})
        same(race.solver.state(), before)


SMALL = {"LOOK": 6, "MOST": ((12, 6), (24, 4), (48, 3)), "SLOW": 20, "PATIENCE": 60, "PATIENCE_MAX": 240}
"""A small race, in which arms are removed and join within a few dozen examples."""


def make_small(monkeypatch):
    for name, value in SMALL.items():
        for module in (arms, leaving, race):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


@pytest.fixture
def small(monkeypatch):
    make_small(monkeypatch)
    monkeypatch.setattr(arms, "HALF_LIFE_LEAST", 4)
    monkeypatch.setattr(arms, "IDLE", 20)
    for name, value in {"ramp_start": 3, "clean_every": 20}.items():  # of arms with the ramp, else never reached here
        monkeypatch.setitem(GapSVM.__init__.__kwdefaults__, name, value)
    for first in ("RADIAL", "BOTH"):
        settings = tuple(s._replace(half_life=s.half_life // 50) for s in getattr(arms, first))
        monkeypatch.setattr(arms, first, settings)


ACTION = st.one_of(
    st.tuples(st.sampled_from(["learn", "weighted"]), st.integers(1, 40)),
    st.tuples(st.just("again"), st.integers(1, 10)),
    st.tuples(st.just("drop"), st.integers(1, 30)),
    st.tuples(st.sampled_from(["finish", "fade", "class", "load", "compact"]), st.just(0)),
)


@pytest.mark.long
@pytest.mark.usefixtures("small")
@given(seed=st.integers(0, 10_000), points_max=st.sampled_from([15, 1000]), actions=st.lists(ACTION, max_size=12))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_history_it_is_consistent_and_goes_on_to_the_bit_from_its_state(seed, points_max, actions):
    random = np.random.default_rng(seed)
    X, y = wavy(500, seed=seed, noise=0.25)
    first, second = (
        stream_of("auto", X, y, kernel=RBF, C=1.0, points_max=points_max, when_full="remove", announced=2)
        for _ in range(2)
    )
    for stream in (first, second):
        stream.solver.fading = True
    learned, dropped = 0, set()
    for action, count_ in actions:
        numbers = random.permutation(learned)[:count_]
        classes = first.solver.classes
        for stream in (first, second):
            solver = stream.solver
            if action == "learn":
                keys = np.arange(learned, min(learned + count_, 500))
                solver.learn(stream.rows(X[keys]), (y[keys] + keys // 90) % classes, keys)
            elif action == "weighted":
                keys = np.arange(learned, min(learned + count_, 500))
                weights = np.array([0.5, 1.0, 2.0])[keys % 3]
                solver.learn_weighted(stream.rows(X[keys]), (y[keys] + keys // 90) % classes, keys, weights)
            elif action == "again":
                keys = np.array(sorted(set(numbers.tolist()) - dropped), np.int64)
                solver.learn(stream.rows(X[keys]), (y[keys] + keys // 90) % classes, keys, again=True)
            elif action == "drop":
                solver.drop(numbers)
            elif action == "fade":
                solver.fade(0.8)
            elif action == "class":
                solver.add_class(0.5)
            elif action != "load":
                getattr(solver, action)()
        learned = min(learned + count_, 500) if action in {"learn", "weighted"} else learned
        dropped |= set(numbers.tolist()) if action == "drop" else set()
        if action == "load":
            second.solver.load(first.solver.state())
        same(first.solver.state(), second.solver.state())
        first.solver.examine()
        assert not dropped & set(first.solver.known().tolist())
        assert all(machine.live <= points_max for machine in first.solver.machines)
        solver, look = first.solver, SMALL["LOOK"]
        assert solver.evidence - solver.opened < solver.patience + 2 * look
        since = solver.looked - solver.opened + look / 10
        assert len(solver.arms) <= min((most for least, most in SMALL["MOST"] if since > least), default=arms.ARMS_MAX)
        assert {arm.fades for arm in solver.arms} == {False, True}
        if learned:
            assert np.isfinite(first.decision(X[:20])).all()
    ramped = [arm.machine for arm in first.solver.arms if arm.setting.ramp]
    event("an example fell beside the ramp", any(machine.discarded.any() for machine in ramped))


@pytest.mark.long
def test_it_costs_as_much_as_a_few_machines():
    """Measure the cost in kernel values, which do not depend on the speed of the computer."""
    X, classes = wavy(12_000)
    race = raced(X, classes, batch=200).learn()
    plain = LASVM(RBF, 2, C=1.0)
    values = sum(machine.certificate()["kernel_evaluations"] for machine in race.solver.machines)
    for _ in range(2):
        plain.add_class()
    for b in range(0, 12_000, 200):
        plain.learn(rows_from_dense(X[b : b + 200], RBF, 2), classes[b : b + 200], np.arange(b, b + 200))
    assert values < 4 * plain.certificate()["kernel_evaluations"]
