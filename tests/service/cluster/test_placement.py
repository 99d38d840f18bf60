"""Models that must move from one server to another, and models that must stay."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hinged.service.cluster.placement import GOAL, NEED, Host, Placed, fullness, needed_moves

MIB = 2**20
A, B, C = SERVERS = [Host(name, 2**30, 4.0) for name in "abc"]


def models_on(counts, memory_bytes=MIB, load=0.001):
    return [Placed(f"{owner}{k}", owner, memory_bytes, load) for owner, count in counts.items() for k in range(count)]


def after(models, moves):
    targets = {move.model: move.target for move in moves}
    return [model._replace(owner=targets.get(model.model, model.owner)) for model in models]


def gap(servers, models):
    full = fullness(servers, models).values()
    return max(full) - min(full)


def test_servers_that_differ_little_keep_their_models():
    assert needed_moves(SERVERS, models_on({"a": 12, "b": 9, "c": 8})) == []


def test_a_few_models_need_no_move():
    assert needed_moves(SERVERS, models_on({"a": 2})) == []


def test_a_server_that_joins_gets_its_share_and_nothing_else_moves():
    models = models_on({"a": 30, "b": 30})
    moves = needed_moves(SERVERS, models)
    assert {move.target for move in moves} == {"c"}
    counts = Counter(model.owner for model in after(models, moves))
    assert max(counts.values()) - min(counts.values()) <= 2
    assert needed_moves(SERVERS, after(models, moves)) == []


def test_memory_is_evened_out_when_all_servers_have_as_many_models():
    models = models_on({"a": 10}, 80 * MIB) + models_on({"b": 10, "c": 10})
    moves = needed_moves(SERVERS, models)
    of = Counter()
    for model in after(models, moves):
        of[model.owner] += model.memory_bytes
    assert max(of.values()) < 1.35 * min(of.values())
    assert {move.source for move in moves if move.model.startswith("a")} == {"a"}


def test_load_is_evened_out_but_a_model_with_all_the_load_stays():
    models = [*models_on({"a": 10, "b": 10, "c": 10}, load=0.0), Placed("hot", "a", MIB, 2.0)]
    moves = needed_moves(SERVERS, models)
    assert "hot" not in {move.model for move in moves}
    two = [*models, Placed("warm", "a", MIB, 1.0)]
    assert [move.model for move in needed_moves(SERVERS, two)][:1] == ["warm"]


def test_a_negligible_load_moves_nothing():
    assert needed_moves(SERVERS, [*models_on({"b": 5, "c": 5}, load=0.0), *models_on({"a": 5}, load=0.005)]) == []


def test_no_server_gets_more_than_fits_into_its_memory():
    small = Host("small", 100 * MIB, 64.0)
    models = models_on({"a": 12}, 80 * MIB, load=0.3)
    moves = needed_moves([A, small], models)
    assert sum(move.target == "small" for move in moves) <= 1


def test_larger_servers_get_more():
    large = Host("large", 4 * 2**30, 16.0)
    models = models_on({"a": 50}, 10 * MIB, load=0.05)
    counts = Counter(model.owner for model in after(models, needed_moves([A, large], models)))
    assert counts["large"] > counts["a"]


@example([("a", 1.0, 0.0), ("a", 30598707.0, 1.0), ("a", 60429506.0, 0.0), ("b", 1358217.0, 1.0), ("c", 0.0, 1.0)])
@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100 * MIB), st.floats(0, 1)), max_size=60))
def test_a_plan_makes_full_servers_less_full_and_no_further_plan_is_needed(given):
    models = [Placed(f"m{k}", *each) for k, each in enumerate(given)]
    before = fullness(SERVERS, models)
    moves = needed_moves(SERVERS, models)
    then = after(models, moves)
    assert len({move.model for move in moves}) <= len(models)
    if moves:
        assert gap(SERVERS, models) > NEED
        assert sorted(fullness(SERVERS, then).values(), reverse=True) < sorted(before.values(), reverse=True)
    if gap(SERVERS, then) > NEED:  # perhaps no single move helps
        assert needed_moves(SERVERS, then) == []


def test_every_server_is_within_the_goal_where_models_are_small():
    models = models_on({"a": 200, "b": 100, "c": 0}, 2 * MIB, 0.01)
    assert gap(SERVERS, after(models, needed_moves(SERVERS, models))) <= GOAL


def test_moves_of_a_plan_are_valid_in_their_order():
    models = models_on({"a": 40, "b": 3, "c": 20})
    owners = {model.model: model.owner for model in models}
    for move in needed_moves(SERVERS, models):
        assert owners[move.model] == move.source
        owners[move.model] = move.target


@pytest.mark.parametrize("servers", [[], [A]])
def test_nothing_moves_without_another_server(servers):
    assert needed_moves(servers, models_on({"a": 100})) == []
