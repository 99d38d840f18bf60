"""The page suggests to stop labelling only if the predictions stand still, and the answers agree with the model."""

import numpy as np
import pytest

from hinged.service.model.estimates import estimate
from tests.helpers.examples import examples_of, heaps


def taught(client, model, n, **configuration):
    """Create a model that has learned two clusters, with 60 candidates in the cluster of ham, the label of key 1."""
    client.create_model(
        model, kernel={"type": "rbf", "gamma": 1.0}, C=1, features={"type": "dense", "dim": 2}, **configuration
    )
    client.learn(model, [{"id": "ham", "x": [4, 0], "y": "ham"}, *examples_of(heaps(n, ["ham", "spam"]))])
    client.offer(model, [{"id": f"c{k}", "x": [4 + k / 1000, 0]} for k in range(60)])
    return model


@pytest.mark.long
@pytest.mark.parametrize("key", ["1", "2"])
def test_the_page_suggests_to_stop_unless_answers_contradict_a_model_that_stands_still(client, server, tab, key):
    """The model knows many examples like the candidates, so no answer changes a prediction. Key 1 is their label."""
    model = taught(client, f"still-{key}", 400, solver="smo", labels={"explore": 1})
    one = tab(server.url)
    page = one.label(model, "ann")
    effect = page.get_by_role("region", name="Effect of your answers")
    effect.get_by_text("60 candidates in the pool").wait_for()
    for _ in range(22):
        one.answer(key)
    effect.get_by_text("newest 20 contradict the model").wait_for()
    said = effect.inner_text()
    if key == "1":
        assert "You can stop here. More answers would change little." in said
        assert "0 of the newest 20 contradict the model" in said
    else:
        assert "stop here" not in said
        assert "Answers change little, but contradict the model." in said
        assert "20 of the newest 20 contradict the model" in said


HALF, ALL, NONE = [True, False] * 10, [True] * 20, [False] * 20  # whether each of the newest answers agrees


@pytest.mark.parametrize(
    ("changed", "agree", "random", "stop"),
    [
        (0, ALL, (0.9, 30), True),
        (0, [False, *ALL[1:]], (1.0, 30), True),  # as chance has it
        (0, [*NONE[:5], *ALL[5:]], (1.0, 30), False),
        (0, HALF, (0.6, 10), True),
        (0, HALF, (0.9, 100), False),
        (0, NONE, (0.0, 30), False),
        (0, ALL, None, False),  # the accuracy is unknown
        (9, ALL, (0.9, 30), False),
    ],
)
def test_the_hint_rests_on_changed_predictions_and_on_answers_that_contradict_the_model(
    server, tab, changed, agree, random, stop
):
    told = None
    if random is not None:
        right = np.arange(random[1]) < random[0] * random[1]
        told = {"accuracy": estimate(right, np.ones(right.size)), "examples": right.size}
    page = tab(server.url).open("", "h1")
    found = page.evaluate(
        """async ([changed, agree, estimate]) => {
          const { hint } = await import("./ui/effects.js");
          const recent = agree.map((yes) => ({ label: "a", prediction: yes ? "a" : "b" }));
          return hint([{ answers: 20, changed, compared: 60 }], recent, estimate);
        }""",
        [changed, agree, told],
    )
    assert found["stop"] is stop
    assert f"{agree.count(False)} of the newest 20 contradict the model" in found["why"]


@pytest.mark.long
def test_answers_that_the_model_has_not_learned_are_no_reason_to_stop(client, server, tab):
    """Each question needs two labels, and only one annotator answers."""
    model = taught(client, "checked", 20, labels={"overlap": 2})
    one = tab(server.url)
    page = one.label(model, "ann")
    for _ in range(22):
        one.answer("1")
    page.wait_for_timeout(1500)  # until the page has compared the predictions
    page.get_by_text("After 20 answers the page tells you whether to stop; 0 so far.").wait_for()
