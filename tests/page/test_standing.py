"""The page says how good a model is, what needs somebody, and what to do next; its programs run as they are shown."""

import re
import subprocess
import sys

import pytest

from tests.helpers.examples import examples_of, heaps
from tests.helpers.payments import BODY, stream
from tests.helpers.server import eventually

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}
WEEK_MS = 7 * 86_400_000


def taught(client, name, n=60, **configuration):
    client.create_model(name, **{"kernel": KERNEL, "C": 1, "features": FEATURES, **configuration})
    if n:
        client.learn(name, examples_of(heaps(n, ["ham", "spam"])))
    return name


def share(value):
    return f"{100 * value:.1f} %"


@pytest.mark.long
def test_one_sentence_says_how_good_a_model_is_and_links_name_the_next_steps(client, server, tab):
    model = taught(client, "stated", 80)
    client.learn(model, [{"id": "odd", "x": [4.0, 0.0], "y": "spam"}, {"id": "odd2", "x": [0.0, 4.0], "y": "ham"}])
    client.offer(model, [{"id": f"c{k}", "x": [k / 10, 1]} for k in range(20)])
    page = tab(server.url).open(f"models/{model}", ".chart canvas")
    state = page.get_by_role("region", name="State")
    suspects = len(client.suspects(model, n=100)["suspects"])
    state.get_by_text(f"contradicts {suspects} label").wait_for()
    said = state.locator("p").inner_text()
    metrics = client.model(model)["metrics"]
    rows = [sum(row) for row in metrics["confusion"]["window"]]
    window = metrics["window"]
    right = f"Right in {share(window['accuracy'])} of the last {window['examples']} predictions"
    assert said.startswith(f"{right}, between ")
    low, high = map(float, re.search(r"between ([\d.]+) and ([\d.]+)", said).groups())
    assert low < 100 * window["accuracy"] < high
    usual = metrics["confusion"]["classes"][rows.index(max(rows))]
    assert f'always guessing "{usual}" would be right in {share(max(rows) / sum(rows))}' in said
    steps = {link.inner_text(): link.get_attribute("href") for link in state.get_by_role("link").all()}
    assert steps["Label 20 questions"] == f"#/models/{model}/label"
    assert f"#/models/{model}/suspects" in steps.values()
    page.get_by_role("link", name="Use it by code").click()
    page.locator("pre").wait_for()  # the address opens the fold
    page.reload()
    page.locator("pre").wait_for()


@pytest.mark.parametrize(
    ("curve", "accuracy", "examples", "says"),
    [
        ([(1000, 0.70), (2000, 0.80)], 0.80, 2000, "newest examples gained about 1 point"),
        ([(50, 0.60)], 0.65, 100, None),
        ([(100, 0.50)], 0.70, 200, "newest examples gained about 40 points"),
        ([(20, 0.10)], 0.70, 100, None),
        ([(9000, 0.90), (50_000, 0.90)], 0.90, 50_000, "would gain less than 0.1 points"),
        ([(1000, 0.90), (2000, 0.90)], 0.90, 2000, None),
        ([(1000, 0.90), (2000, 0.70)], 0.70, 2000, None),
    ],
)
def test_the_sentence_says_what_more_examples_gain_if_chance_does_not_explain_it(
    server, tab, curve, accuracy, examples, says
):
    """Half of a young model's examples were right as often as its curve says, so the other half follows."""
    page = tab(server.url).open("", "h1")
    said = page.evaluate(
        """async ([curve, accuracy, total]) => {
          const { standing } = await import("./ui/standing.js");
          const [examples, shares] = [curve.map(([n]) => n), curve.map(([, share]) => share)];
          const history = { curve: { at_ms: examples.map(() => Date.now()), examples, accuracy: shares } };
          const metrics = { window: { accuracy, examples: Math.min(total, 1000) }, confusion: null, drift: {} };
          return standing({ figures: { examples: total, metrics }, history, suspects: 0 }).rest;
        }""",
        [curve, accuracy, examples],
    )
    gains = [text for text in said if "hundred" in text]
    assert gains == ([] if says is None else gains[:1])
    assert says is None or says in gains[0]


def test_a_new_model_says_that_it_is_empty_and_asks_for_data(client, server, tab):
    model = taught(client, "untaught", 0)
    page = tab(server.url).open(f"models/{model}", ".standing")
    page.get_by_text("This model has learned nothing yet.").wait_for()
    page.get_by_role("link", name="Bring data from a file").wait_for()
    page.locator("pre").wait_for()


@pytest.mark.parametrize(
    ("accuracy", "word"), [(0.7, "better than"), (0.9, "worse than"), (0.805, "no different from")]
)
def test_the_sentence_compares_with_a_week_ago(server, tab, accuracy, word):
    page = tab(server.url).open("", "h1")
    said = page.evaluate(
        """async ([accuracy, week]) => {
          const { standing } = await import("./ui/standing.js");
          const now = Date.now(), at_ms = [now - 2 * week, now - week - 1000, now - 1000];
          const history = { curve: { at_ms, examples: [1000, 3000, 5000], accuracy: [0.5, accuracy, 0.8] } };
          const metrics = { window: { accuracy: 0.8, examples: 1000 }, confusion: null, drift: {} };
          return standing({ figures: { examples: 5000, metrics }, history, suspects: 0 }).rest;
        }""",
        [accuracy, WEEK_MS],
    )
    assert said[0] == f"{word} a week ago ({share(accuracy)})"


@pytest.mark.parametrize("right", [0.87, 0.95])
def test_a_model_that_is_no_better_than_guessing_says_so_and_accuses_no_label(server, tab, right):
    page = tab(server.url).open("", "h1")
    said, steps = page.evaluate(
        """async (right) => {
          const { standing, steps } = await import("./ui/standing.js");
          const mark = { kind: "promoted", text: "challenger promoted", examples: 4800 };
          const history = { curve: { at_ms: [] }, marks: [mark] };
          const confusion = { classes: ["ok", "fraud"], window: [[875, 0], [125, 0]] };
          const drift = { flagged: true, last_at: 4500, examples: 400, errors: 280 };
          const metrics = { window: { accuracy: right, examples: 1000 }, confusion, drift };
          const figures = { examples: 5000, metrics, pool: {}, configuration: {} }, suspects = right < 0.9 ? null : 90;
          const { rest } = standing({ figures, history, suspects });
          return [rest, steps({ model: "m", figures, suspects }).map((it) => it.text)];
        }""",
        right,
    )
    drift = (
        "the error rate rose at example 4,500, then: challenger promoted, at example 4,800: "
        "right in 30.0 % of 400 examples since the change"
    )
    if right < 0.9:
        weak = 'no better than always guessing "ok" (87.5 %)'
        assert said == [weak, 'it finds 0 of 125 examples of "fraud"', drift]
        assert "Say what each error costs" in steps
        assert not any("Check" in step for step in steps)
    else:
        assert said[:2] == ['always guessing "ok" would be right in 87.5 %', drift]
        assert "contradicts 90 labels" in said[2]
        assert "Check 90 labels" in steps


@pytest.mark.parametrize("learnable", [False, True])
def test_a_model_accuses_labels_only_if_it_is_better_than_guessing(client, server, tab, learnable):
    model = taught(client, f"accuser-{learnable}", 0)
    client.learn(
        model,
        [
            {
                "id": f"e{k}",
                "x": [(k * 7) % 11 / 11, (k * 5) % 13 / 13],
                "y": ("ok", "fraud")[(k * 7) % 11 > 5 if learnable else k % 9 == 0],
            }
            for k in range(240)
        ],
    )
    client.correct(model, "e3", "fraud" if client.example(model, "e3")["label"] == "ok" else "ok")
    page = tab(server.url).open("", "h1")
    count = page.evaluate('async (model) => (await import("./ui/standing.js")).suspectsOf(model)', model)
    assert (count is not None) is learnable


def test_the_start_lists_what_needs_somebody_and_the_ways_to_begin(client, server, tab):
    model = taught(client, "disputed", 40, labels={"overlap": 2})
    client.offer(model, [{"id": "c", "x": [1, 1]}])
    for annotator, y in (("ann", "ham"), ("bob", "spam")):
        (question,) = client.query(model, annotator=annotator)["queries"]
        client.learn(model, [{"id": question["id"], "y": y, "lease": question["lease"]}])
    one = tab(server.url)
    page = one.page
    page.goto(server.url)  # a browser gets the page
    needs = page.get_by_role("region", name="Needs attention")
    needs.get_by_role("link", name=f"{model} has 1 conflict").wait_for()
    page.get_by_role("link", name=f"1 question of {model}").wait_for()
    page.get_by_role("link", name="Choose a file").click()
    page.wait_for_selector(".drop")


@pytest.mark.long
def test_the_programs_run_as_they_are_shown(client, server, tab):
    client.create_model("coded", kernel={"type": "rbf"}, features={"type": "named"})
    x = {"age": 3, "member": True, "note": 'it\'s "new"'}
    client.learn("coded", [{"id": "first", "x": x, "y": "yes"}, {"id": "second", "x": {"age": 9}, "y": "no"}])
    one = tab(server.url)
    one.open("models/coded", ".standing")
    page = one.unfold("Send by code")
    shown = {}
    for language in ("curl", "Python", "JavaScript"):
        page.get_by_role("button", name=language, exact=True).click()
        page.get_by_role("button", name=language, exact=True, pressed=True).wait_for()
        shown[language] = page.locator("pre").inner_text()
        assert "age" in shown[language]
    # Each program sends an example with the same id. A second id shows that a program has sent its own.
    for language, run in {
        "curl": lambda text: subprocess.run(["bash", "-ec", text], check=True, capture_output=True),
        "Python": lambda text: subprocess.run([sys.executable, "-c", text], check=True, capture_output=True),
        "JavaScript": lambda text: page.evaluate(f"(async () => {{ {text} }})()"),
    }.items():
        run(shown[language].replace("my-1", f"by-{language}"))
        assert client.example("coded", f"by-{language}")["x"] == x
    assert client.model("coded")["examples"] == 5


@pytest.mark.long
def test_a_worse_challenger_is_promoted_after_a_warning_and_taken_back(client, server, tab):
    model = taught(client, "promoted", 300)
    client.wait(client.challenge(model, "worse", C=1e-6))
    client.learn(model, examples_of(heaps(200, ["ham", "spam"], seed=3), "more"))
    one = tab(server.url)
    page, asked = one.open(f"models/{model}", ".chart canvas"), []
    page.on("dialog", lambda dialog: asked.append(dialog.message))
    page.get_by_role("button", name="Promote").click()
    eventually(lambda: client.model(model)["configuration"]["C"] == 1e-6)
    assert "The challenger is worse" in asked[0]
    page.get_by_role("row", name=re.compile("promoted")).get_by_role("button", name="Take back").click()
    eventually(lambda: client.model(model)["configuration"]["C"] == 1)
    page.get_by_role("row", name=re.compile("^taken back")).wait_for()


@pytest.mark.long
def test_a_model_of_a_rare_class_is_told_to_say_what_errors_cost_in_words_of_the_page(client, server, tab):
    client.create_model("rare", **BODY)
    client.learn_rows("rare", *stream(600, share=0.03))
    page = tab(server.url).open("models/rare", ".chart canvas")
    said = page.get_by_role("list", name="Warnings").inner_text()
    assert "accuracy says little" in said
    assert "`" not in said
    page.get_by_role("link", name="Say what each error costs").click()
    page.get_by_role("dialog", name="Change costs").wait_for()


@pytest.mark.long
@pytest.mark.parametrize(
    ("parts", "title", "shown"),
    [
        ({"goal": "balanced"}, "Balanced accuracy", lambda figure: f"{100 * figure:.1f} %"),
        ({"goal": "cost", "costs": {"fraud": {"ok": 9}}}, "Cost of a decision", lambda figure: f"{figure:.4g}"),
    ],
)
def test_the_chart_shows_the_figure_of_the_goal_beside_its_baseline(client, server, tab, parts, title, shown):
    model = f"goal-{parts['goal']}"
    client.create_model(model, kernel={"type": "rbf"}, features=FEATURES, **parts)
    client.learn_rows(model, *stream(400, share=0.2))
    page = tab(server.url).open(f"models/{model}", ".chart canvas")
    chart = page.get_by_role("region", name=title, exact=True)
    figure = client.history(model)["curve"]["goal"][-1]
    chart.get_by_text(shown(figure), exact=True).first.wait_for()
    always = client.model(model)["metrics"]
    base = "50.0 %" if parts["goal"] == "balanced" else f"{min(always['decisions']['always'].values()):.4g}"
    chart.get_by_text(base, exact=True).first.wait_for()
    assert page.get_by_role("region", name="Accuracy", exact=True).count() == 0


@pytest.mark.long
def test_a_model_of_few_labels_asks_for_more_labels_and_not_for_costs(client, server, tab):
    client.create_model("few", **BODY)
    client.learn("few", [{"x": [0, k], "y": "ham" if k % 2 else "spam"} for k in range(14)])
    client.offer("few", [{"id": f"c{k}", "x": [1, k]} for k in range(31)])
    for question in client.query("few", n=30, strategy="active", annotator="ann")["queries"]:
        client.learn("few", [{"id": question["id"], "y": "ham", "lease": question["lease"]}])
    state = tab(server.url).open("models/few", ".chart canvas").get_by_role("region", name="State")
    state.get_by_text("; no better than always guessing").wait_for()
    state.get_by_text("; most predictions were for questions that the model found hard").wait_for()
    steps = state.get_by_role("link").all_inner_texts()
    assert steps[0] == "Label 1 question"
    assert "Say what each error costs" not in steps


@pytest.mark.long
def test_many_suspects_are_noise_and_come_after_the_other_steps(client, server, tab):
    client.create_model("noisy", **BODY)
    client.learn_rows("noisy", *stream(1500))
    assert len(client.suspects("noisy", n=200)["suspects"]) > 100
    state = tab(server.url).open("models/noisy", ".chart canvas").get_by_role("region", name="State")
    state.get_by_role("link", name="Check more than 100 labels").wait_for()
    steps = state.get_by_role("link").all_inner_texts()
    assert steps == ["Predict or add a file", "Check more than 100 labels", "Use it by code"]
    listed = state.page.evaluate(
        """async () => (await import("./ui/standing.js"))
          .attention([{model: "noisy"}, {model: "clean"}], {noisy: 101, clean: 100}).map((it) => it.text)"""
    )
    assert listed == ["contradicts 100 labels that it learned"]  # the start lists only what needs somebody
