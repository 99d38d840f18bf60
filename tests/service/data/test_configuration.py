import json

import pytest

from hinged.service.data.configuration import (
    configured_anew,
    found_again,
    new_configuration,
    parse_configuration,
    read_configuration,
)
from hinged.service.data.parameters import WITHOUT
from hinged.service.errors import Invalid
from hinged.service.settings import Settings

BASE = {"kernel": {"type": "rbf", "gamma": 1.0}, "features": {"type": "dense", "dim": 2}}


def parse(**changes):
    return parse_configuration(json.dumps(BASE | changes), Settings())


@pytest.mark.parametrize(("label", "complaint"), [("x" * 300, "at most 256 characters"), (2**63, "at most 63 bits")])
def test_declared_classes_are_held_to_what_examples_are(label, complaint):
    with pytest.raises(Invalid, match=rf"classes\[1\]: .*{complaint}"):
        parse(classes=["a", label])


@pytest.mark.parametrize("classes", [None, ["a", "b"]])
@pytest.mark.parametrize(("C", "weight"), [(1e14, 1e5), (1e-300, 1e-300)])
def test_a_class_weight_that_makes_an_impossible_bound_is_refused(C, weight, classes):
    with pytest.raises(Invalid, match=r"C times class_weight\['a'\] must be > 0 and < 1e15"):
        parse(C=C, class_weight={"a": weight}, classes=classes)


def test_labels_that_python_takes_for_equal_make_other_configurations():
    assert not parse(classes=[True, False]).same_as(parse(classes=[1, 0]))
    assert parse(classes=[1, 0]).same_as(parse(classes=[1, 0]))


@pytest.mark.parametrize("solver", WITHOUT)
def test_what_was_written_before_a_solver_had_a_parameter_is_read_as_without_it(solver):
    written = parse(solver=solver).model_dump(mode="json")
    assert read_configuration(written).same_as(parse(solver=solver))
    read = read_configuration({name: value for name, value in written.items() if name not in WITHOUT[solver]})
    assert {name: getattr(read, name) for name in WITHOUT[solver]} == WITHOUT[solver]
    assert not read.same_as(parse(solver=solver))


@pytest.mark.parametrize(
    ("base", "solver", "expected"),
    [
        ({"idle_max": 0, "delta_max": None, "tol": 0.01}, "lasvm-g", {"idle_max": 1000, "tol": 0.01}),
        ({"idle_max": 0, "delta_max": None, "C": 3.0}, "tracking-1", {"draws": 100, "delta_max": 1.0, "C": 3.0}),
        ({"solver": "lasvm-g", "idle_max": 7}, "lasvm-nc", {"idle_max": 7}),
        ({"solver": "exact"}, "lasvm", {"precision": "float64"}),
        ({"seed": 5}, "exact", {"seed": 5, "precision": "float64"}),
    ],
)
def test_of_another_solver_the_parameters_stay_that_mean_the_same(base, solver, expected):
    facts = configured_anew(parse(**base).model_dump(mode="json"), {"solver": solver})
    read = read_configuration(parse_configuration(json.dumps(facts), Settings()).model_dump(mode="json"))
    assert {name: getattr(read, name) for name in expected} == expected


@pytest.mark.parametrize(("part", "size", "step"), [("window", 1500, 75), ("window", 19, 1), ("half_life", 160, 10)])
def test_a_span_of_examples_goes_by_in_steps_which_models_from_before_there_were_any_keep_as_theirs(part, size, step):
    asked = new_configuration(json.dumps(BASE | {part: {"examples": size}, "solver": "lasvm"}), Settings())
    assert getattr(asked, part).step == step
    written = asked.model_dump(mode="json")
    assert read_configuration(written).same_as(asked)
    del written[part]["step"]
    there = read_configuration(written)
    assert getattr(there, part).step is None
    assert found_again(asked, there).same_as(there)  # PUT once more
    assert not there.same_as(asked)
    changed = configured_anew(there.model_dump(mode="json"), {"C": 3.0})  # PATCH
    assert getattr(parse_configuration(json.dumps(changed), Settings()), part).step is None
    other = configured_anew(there.model_dump(mode="json"), {part: {"examples": 320}})
    assert getattr(parse_configuration(json.dumps(other), Settings()), part).step in {16, 20}


NAMED = {"kernel": {"type": "rbf"}, "features": {"type": "named"}}


def named(**features):
    return new_configuration(json.dumps(NAMED | {"features": NAMED["features"] | features}), Settings())


def test_no_time_tells_how_long_it_is_since_the_example_before_unless_it_is_asked_and_all_do_in_models_from_before():
    assert named().features.since == ()
    assert named(since=["when"]).features.since == ("when",)
    written = named().model_dump(mode="json")
    before = {**written, "features": {name: value for name, value in written["features"].items() if name != "since"}}
    there = read_configuration(before)
    assert there.features.since is None
    assert found_again(named(), there).same_as(there)
    assert not found_again(named(since=[]), there).same_as(there)


@pytest.mark.parametrize(
    ("features", "kind"),
    [({"times": False}, "category"), *(({"columns": {"when": {"type": kind}}}, kind) for kind in ("category", "text"))],
)
def test_what_is_no_time_cannot_tell_how_long_it_is_since_the_example_before(features, kind):
    with pytest.raises(Invalid, match=rf"features.since: 'when' must be a name of times, got one that is a {kind}"):
        named(since=["when"], **features)
