import json

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hinged.service.commands.change import changed
from hinged.service.data.configuration import (
    configured_anew,
    found_again,
    new_configuration,
    parse_configuration,
    read_configuration,
    shown_configuration,
)
from hinged.service.data.parameters import CONFIGURATION_OF, SOLVER_NAMES, WITHOUT
from hinged.service.errors import Invalid
from hinged.service.settings import Settings

BASE = {"kernel": {"type": "rbf", "gamma": 1.0}, "features": {"type": "dense", "dim": 2}}


def parse(**changes):
    return parse_configuration(json.dumps(BASE | changes), Settings())


@pytest.mark.parametrize(("label", "complaint"), [("x" * 300, "at most 256 characters"), (2**63, "at most 63 bits")])
def test_declared_classes_are_checked_like_labels_of_examples(label, complaint):
    with pytest.raises(Invalid, match=rf"classes\[1\]: .*{complaint}"):
        parse(classes=["a", label])


@pytest.mark.parametrize("classes", [None, ["a", "b"]])
@pytest.mark.parametrize(("C", "weight"), [(1e14, 1e5), (1e-300, 1e-300)])
def test_a_class_weight_that_makes_an_impossible_bound_is_refused(C, weight, classes):
    with pytest.raises(Invalid, match=r"C times class_weight\['a'\] must be > 0 and < 1e15"):
        parse(C=C, class_weight={"a": weight}, classes=classes)


def test_labels_that_are_equal_in_python_make_different_configurations():
    assert not parse(classes=[True, False]).same_as(parse(classes=[1, 0]))
    assert parse(classes=[1, 0]).same_as(parse(classes=[1, 0]))


@pytest.mark.parametrize(
    "body",
    [
        {"classes": ["a", 1, True]},
        {"show": {"image": [1, 2], "origins": ["https://a.example"]}},
        {"features": {"type": "named", "times": True, "since": ["at"]}},
    ],
)
def test_lists_of_a_written_configuration_read_back_as_they_were(body):
    made = parse(**body)
    assert read_configuration(made.model_dump(mode="json")) == made


def of_any_solver():
    """Draw a body for any solver, with some of its parameters. Some parameters have their default values."""
    kernels = st.sampled_from(
        [{"type": "rbf"}, {"type": "rbf", "gamma": 2.0}, {"type": "rbf", "gamma": "auto"}, {"type": "linear"},
         {"type": "laplacian", "gamma": 0.5}, {"type": "polynomial", "degree": 2}]
    )  # fmt: skip
    features = st.one_of(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["dense", "sparse"]), "dim": st.integers(1, 9)},
            optional={
                "scale": st.sampled_from(["auto", None]), "warmup": st.sampled_from([None, 50]),
                "warmup_candidates": st.booleans(),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("named")},
            optional={
                "warmup": st.sampled_from([1000, 50]), "columns_max": st.sampled_from([1024, 20]),
                "columns": st.sampled_from([None, {}, {"a": {"type": "time"}}]), "times": st.booleans(),
                "identifiers": st.booleans(), "tails": st.booleans(), "warmup_candidates": st.booleans(),
            },
        ),
        st.fixed_dictionaries({"type": st.just("text")}, optional={"dim": st.sampled_from([2**18, 2**10])}),
    )  # fmt: skip
    shared = {
        "classes": st.sampled_from([None, [0, 1], [False, True], ["a", "b"]]),
        "class_weight": st.sampled_from([None, {}, {"a": 2.0}]),
        "points_max": st.sampled_from([10_000, 5000]),
        "when_full": st.sampled_from(["remove", "refuse"]),
        "window": st.sampled_from([None, {"examples": 2000}, {"examples": 2000, "step": None}, {"seconds": 9.5}]),
        "calibration": st.sampled_from(["auto", "sigmoid"]),
        "labels": st.fixed_dictionaries(
            {}, optional={"overlap": st.integers(1, 2), "budget": st.sampled_from([None, 0.1])}
        ),
        "show": st.sampled_from([None, {"origins": ["https://a.example"]}]),
        "seed": st.integers(0, 1),
        "C": st.sampled_from([1, 1.0, 3]),
        "half_life": st.sampled_from([None, {"examples": 2000}, {"seconds": 9.5}]),
        "idle_max": st.sampled_from([0, 1000, 2000]), "delta_max": st.sampled_from([None, 1.0, 2.0]),
        "averaging": st.sampled_from([None, 1000, 7]), "budget": st.sampled_from([500, 30]), "eta": st.just(0.3),
        "precision": st.sampled_from(["float32", "float64"]),
    }  # fmt: skip

    def body(solver, kernel, features, parameters):
        known = CONFIGURATION_OF[solver].model_fields
        own = {name: value for name, value in parameters.items() if name in known}
        return {"solver": solver, "kernel": kernel, "features": features, **own}

    return st.builds(body, st.sampled_from(SOLVER_NAMES), kernels, features, st.fixed_dictionaries({}, optional=shared))


@pytest.mark.long
@given(body=of_any_solver(), old=st.booleans())
@settings(max_examples=200, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_shown_configuration_makes_the_same_model_and_changes_nothing(body, old):
    read = parse_configuration if old else new_configuration
    try:
        there = read(json.dumps(body), Settings())
    except Invalid:
        assume(False)
    for full in (False, True):
        shown = shown_configuration(there, full=full)
        asked = new_configuration(json.dumps(shown), Settings())
        assert found_again(asked, there).same_as(there)
        assert old or asked.same_as(there)
        whole = there.model_dump(mode="json")
        assert changed(whole, shown, Settings()).same_as(there)


def test_a_shown_configuration_has_given_parts_and_what_follows_from_them():
    body = {"kernel": {"type": "rbf"}, "C": 10, "features": {"type": "dense", "dim": 2}, "labels": {"overlap": 2}}
    assert shown_configuration(new_configuration(json.dumps(body), Settings())) == {
        "solver": "lasvm",
        "kernel": {"type": "rbf", "gamma": "scale"},
        "features": {"type": "dense", "dim": 2, "scale": "auto", "warmup_candidates": True},
        "points_max": 10_000,
        "labels": {"overlap": 2},
        "C": 10.0,
    }


@pytest.mark.parametrize("solver", WITHOUT)
def test_a_configuration_from_before_a_parameter_existed_behaves_as_before(solver):
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
def test_a_change_of_solver_keeps_parameters_that_mean_the_same(base, solver, expected):
    facts = configured_anew(parse(**base).model_dump(mode="json"), {"solver": solver})
    read = read_configuration(parse_configuration(json.dumps(facts), Settings()).model_dump(mode="json"))
    assert {name: getattr(read, name) for name in expected} == expected


@pytest.mark.parametrize(("part", "size", "step"), [("window", 1500, 75), ("window", 19, 1), ("half_life", 160, 10)])
def test_spans_get_steps_except_in_models_from_before_steps_existed(part, size, step):
    asked = new_configuration(json.dumps(BASE | {part: {"examples": size}, "solver": "lasvm"}), Settings())
    assert getattr(asked, part).step == step
    written = asked.model_dump(mode="json")
    assert read_configuration(written).same_as(asked)
    del written[part]["step"]
    there = read_configuration(written)
    assert getattr(there, part).step is None
    assert found_again(asked, there).same_as(there)  # PUT again
    assert not there.same_as(asked)
    changed = configured_anew(there.model_dump(mode="json"), {"C": 3.0})  # PATCH
    assert getattr(parse_configuration(json.dumps(changed), Settings()), part).step is None
    other = configured_anew(there.model_dump(mode="json"), {part: {"examples": 320}})
    assert getattr(parse_configuration(json.dumps(other), Settings()), part).step in {16, 20}


NAMED = {"kernel": {"type": "rbf"}, "features": {"type": "named"}}


def named(**features):
    return new_configuration(json.dumps(NAMED | {"features": NAMED["features"] | features}), Settings())


def test_times_give_the_time_since_only_if_asked_but_always_in_older_models():
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
def test_since_may_only_name_times(features, kind):
    with pytest.raises(Invalid, match=rf"features.since: 'when' must be a name of times, got a name of kind {kind}"):
        named(since=["when"], **features)


@pytest.mark.parametrize(
    ("features", "kernel"), [("named", {"type": "rbf", "gamma": "scale"}), ("text", {"type": "linear"})]
)
def test_a_new_model_without_a_kernel_has_the_kernel_of_its_features(features, kernel):
    body = {"features": {"type": features}}
    there = new_configuration(json.dumps(body), Settings())
    assert shown_configuration(there)["kernel"] == kernel
    assert there.solver == "auto"
    assert found_again(new_configuration(json.dumps(body), Settings()), there) == there


def test_a_body_without_a_kernel_finds_a_model_that_was_made_with_one():
    made = new_configuration(json.dumps({"kernel": {"type": "laplacian"}, "features": {"type": "named"}}), Settings())
    asked = new_configuration(json.dumps({"features": {"type": "named"}}), Settings())
    assert found_again(asked, made) == made
