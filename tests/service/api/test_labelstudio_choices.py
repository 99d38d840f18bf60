import pytest

from hinged.service.api.labelstudio.choices import Control, chosen, control_of, label_of, region_of

CONFIG = """
<View>
  <Text name="text" value="$text"/>
  <Choices name="topics" toName="text" choice="multiple"><Choice value="a"/></Choices>
  <!-- <Choices name="old" toName="text"><Choice value="x"/></Choices> -->
  <Choices name="mood" toName="text" choice="single-radio" showInLine="true">
    <Choice value="Glad"/><Choice value="Sad &amp; blue" alias="sad"/>
  </Choices>
  <Choices name="later" toName="text"><Choice value="y"/></Choices>
</View>
"""


def choice(name, *choices):
    return {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": list(choices)}}


def test_the_first_single_label_control_is_found_with_its_choices():
    assert control_of(CONFIG) == Control("mood", "text", ["Glad", "sad"])
    assert control_of('<View><Choices name="a" toName="b" value="$options"/></View>') == Control("a", "b", [])


@pytest.mark.parametrize(
    "config",
    ["", "no xml", "<View>", '<Labels name="a" toName="b"/>', '<Choices toName="b"/>', "<Choices", "<!DOCTYPE"],
)
def test_a_configuration_without_such_a_control_gives_none(config):
    assert control_of(config) is None


def test_the_choice_of_an_annotation_is_read_from_the_control():
    control = control_of(CONFIG)
    assert chosen([choice("topics", "a"), choice("mood", "sad")], control) == "sad"
    assert chosen([choice("topics", "a")], control) is None
    assert chosen([choice("mood", "sad")], None) == "sad"
    assert chosen([choice("topics", "a"), choice("mood", "sad")], None) is None


@pytest.mark.parametrize(
    "result",
    [[], [choice("mood")], [choice("mood", "Glad", "sad")], [{"value": {"choices": [1]}}], [{"value": 3}], [{}]],
)
def test_several_choices_or_none_give_no_label(result):
    assert chosen(result, control_of(CONFIG)) is None


def test_a_choice_is_mapped_to_the_models_label():
    assert label_of("1", [0, 1]) == 1
    assert label_of("1", [1, "1"]) == "1"
    assert label_of("true", [True, False]) is True
    assert label_of("new", ["old"]) == "new"


def test_a_label_that_cannot_be_chosen_gives_no_result():
    control = control_of(CONFIG)
    assert region_of("sad", control, 0.5) == [choice("mood", "sad") | {"score": 0.5}]
    assert region_of("angry", control, 0.5) == []
    assert region_of(None, control, 0.5) == []
    assert region_of(1, Control("a", "b", ["1"]), 0.5)[0]["value"] == {"choices": ["1"]}
