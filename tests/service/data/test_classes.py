import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hinged.service.data.classes import Labels, check_label, check_labels, label_key, score_name
from hinged.service.errors import Invalid
from tests.helpers.limits import limited

integers = st.integers(-(2**63) + 1, 2**63 - 1)
# Strings that look like the name of another label.
tricky = integers.map(str) | st.sampled_from(["true", "false", "True", "null", "", '"', "-", "--1", "²", "1.0", " 1"])
labels = st.booleans() | integers | st.text(max_size=5) | tricky | tricky.map(json.dumps)


@settings(max_examples=500, deadline=None)
@given(a=labels, b=labels)
@example(a=1, b=True)
@example(a="1", b=1)
@example(a="true", b=True)
@example(a='"1"', b="1")
@example(a='"\\"1\\""', b='"1"')
def test_two_labels_never_share_a_name_in_scores(a, b):
    same = type(a) is type(b) and a == b
    assert (score_name(a) == score_name(b)) == same
    assert (label_key(a) == label_key(b)) == same


def test_a_plain_string_is_its_own_name_and_other_labels_are_json():
    names = {"ham": "ham", "": "", "a b": "a b", "1": '"1"', "-7": '"-7"', "true": '"true"', '"x"': '"\\"x\\""'}
    assert {label: score_name(label) for label in names} == names
    assert [score_name(label) for label in (1, -7, True, False)] == ["1", "-7", "true", "false"]


def test_classes_are_numbered_as_they_come():
    found = Labels()
    assert [found.add(label) for label in ("b", 1, True, "1")] == [0, 1, 2, 3]
    assert [found.number(label) for label in ("b", 1, True, "1")] == [0, 1, 2, 3]
    assert found.number("c") is None
    assert found.number(False) is None
    assert found.names == ["b", "1", "true", '"1"']
    assert len(found) == 4


@pytest.mark.parametrize("label", [2**63 - 1, -(2**63) + 1, True, "", "a" * 10])
def test_labels_within_the_limits_pass(label):
    with limited(label_chars_max=10):
        check_label(label, "y")


@pytest.mark.parametrize(("label", "reason"), [(2**63, "63 bits"), (-(2**63), "63 bits"), ("a" * 11, "at most 10")])
def test_labels_beyond_the_limits_are_refused_with_their_place(label, reason):
    with limited(label_chars_max=10), pytest.raises(Invalid, match=reason) as refused:
        check_label(label, "examples[3].y", index=3)
    assert refused.value.message.startswith("examples[3].y: ")
    assert refused.value.details == {"index": 3}


def test_the_error_names_the_first_label_beyond_the_limits():
    with limited(label_chars_max=10), pytest.raises(Invalid, match="at most 10") as refused:
        check_labels(["a", True, 1, "b" * 11, 2**63, "b" * 11])
    assert refused.value.message.startswith("examples[3].y: ")
    assert refused.value.details == {"index": 3}
    check_labels([True, 1, "a", "a"])
