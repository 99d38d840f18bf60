"""`hinged label` in a real terminal, with a real server."""

import ctypes
import itertools
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hinged import HingedError
from hinged.commands.label import Answered, Session
from tests.helpers.command import argv
from tests.helpers.server import PATIENCE_S, eventually
from tests.helpers.terminal import Terminal

KERNEL = {"type": "rbf", "gamma": 1.0}
NUMBERS = itertools.count()
ALWAYS = {"explore": 0.0}  # no random questions


@pytest.fixture
def model(client):
    """A model with two classes and eleven candidates between them."""
    name = f"m{next(NUMBERS)}"
    client.create_model(name, kernel=KERNEL, C=10, features={"type": "dense", "dim": 2}, labels=ALWAYS)
    client.learn(name, [{"id": "a", "x": [0, 1], "y": "ham"}, {"id": "b", "x": [1, 0], "y": "spam"}])
    client.offer(name, [{"id": f"m{i}", "x": [i / 10, 1 - i / 10]} for i in range(11)])
    return name


@pytest.fixture
def label(real, model):
    """Open a terminal with `hinged label`."""
    opened = []

    def label(*options, name=model):
        opened.append(Terminal(argv("label", name, "--annotator", "ann", "--url", real.url, *options)))
        opened[-1].__enter__()
        return opened[-1]

    yield label
    for terminal in opened:
        terminal.__exit__()


def leased(client, model):
    return {lease["id"] for lease in client.queries(model)["leased"]}


def test_the_guide_comes_before_the_first_question(client, model, label):
    client.change_model(model, labels={"guide": "spam sells,\nham does not [bold]\x1b[2J"})
    said = label().expect("q quit")
    assert said.index("spam sells,") < said.index("ham does not [bold]") < said.index("m5")


def test_a_session_from_the_first_question_to_the_last_key(client, model, label):
    terminal = label()
    terminal.expect("m5")
    question = terminal.expect("q quit")
    assert "0.5  0.5" in question
    assert "1 ham" in question
    assert "2 spam" in question
    assert "says" not in question  # the model's prediction would influence the annotator
    terminal.send("2")
    answer = terminal.expect("support vectors (")
    assert "the model said" in answer
    assert "now it says spam" in answer
    assert "1 labelled, " in answer
    terminal.expect("q quit")
    terminal.send("s")
    terminal.expect("skipped\n")
    terminal.expect("q quit")
    terminal.send("S")
    terminal.expect("skipped for all")
    terminal.expect("q quit")
    terminal.send("q")
    assert terminal.wait() == 0
    assert "1 labelled, 2 skipped, " in terminal.text
    assert "given back to the pool" in terminal.text
    assert leased(client, model) == set()
    assert client.model(model)["examples"] == 3
    with pytest.raises(HingedError):  # m5 is already learned with the label spam
        client.learn(model, [{"id": "m5", "x": [0.5, 0.5], "y": "ham"}])


def test_an_impossible_key_is_reported_and_the_question_stays(label):
    terminal = label()
    terminal.expect("q quit")
    terminal.send("u")
    terminal.expect("nothing to undo")
    terminal.send("9")
    terminal.expect("'9' is not a key here")
    terminal.send("\x1b[A")  # a cursor key
    terminal.send("?")
    assert "m5" in terminal.expect("q quit")
    terminal.send("1")
    terminal.expect("ham: ")
    terminal.expect("1 labelled")


def test_keys_typed_ahead_answer_the_next_questions(client, model, label):
    terminal = label("--prefetch", "0")
    terminal.expect("q quit")
    terminal.send("121q")
    assert terminal.wait() == 0
    assert client.model(model)["examples"] == 5


def test_a_class_without_a_key_is_typed_and_then_gets_a_key(client, model, label):
    terminal = label()
    terminal.expect("q quit")
    terminal.send("n")
    terminal.expect("label: ")
    terminal.send("7\n")
    terminal.expect("1 labelled")
    assert "3 7" in terminal.expect("q quit")
    terminal.send("n")
    terminal.expect("label: ")
    terminal.send('"7"\n')
    terminal.expect("2 labelled")
    assert '4 "7"' in terminal.expect("q quit")
    terminal.send("n")
    terminal.expect("label: ")
    terminal.send("\n")  # an empty label causes no message
    terminal.send("q")
    assert terminal.wait() == 0
    assert client.model(model)["classes"] == ["ham", "spam", 7, "7"]


def test_labels_given_have_keys_while_a_candidate_still_needs_another_annotator(client, label):
    client.create_model("double", features={"type": "dense", "dim": 1}, labels={"overlap": 2, **ALWAYS})
    client.offer("double", [{"id": f"c{k}", "x": [float(k)]} for k in range(3)])
    terminal = label(name="double")
    terminal.expect("q quit")
    terminal.send("n")
    terminal.expect("label: ")
    terminal.send("ham\n")
    terminal.expect("label 1 of 2")
    assert "1 ham" in terminal.expect("q quit")
    terminal.send("1")
    terminal.expect("2 labelled")
    terminal.expect("q quit")
    terminal.send("q")
    assert terminal.wait() == 0


def test_undo_takes_a_skip_back(client, model, label):
    terminal = label("--prefetch", "0")
    terminal.expect("q quit")
    (passed,) = leased(client, model)
    terminal.send("S")
    terminal.expect("skipped for all")
    terminal.expect("q quit")
    assert passed not in leased(client, model)
    terminal.send("u")
    terminal.expect("skip undone")
    assert passed in terminal.expect("q quit")
    assert passed in leased(client, model)
    terminal.send("1")
    terminal.expect("1 labelled")
    assert "skipped" not in terminal.text.rpartition("1 labelled")[2]
    terminal.expect("q quit")
    terminal.send("q")
    assert terminal.wait() == 0
    assert [a["id"] for a in client.answers(model)["answers"]] == [passed]
    assert leased(client, model) == set()


def test_a_model_with_declared_classes_accepts_no_other_label(client, label):
    features = {"type": "dense", "dim": 1}
    client.create_model("declared", kernel=KERNEL, features=features, classes=[True, False], labels=ALWAYS)
    client.offer("declared", [{"id": "one", "x": [1.0]}])
    terminal = label(name="declared")
    assert "1 true   2 false" in terminal.expect("q quit")
    terminal.send("n")
    terminal.expect("label: ")
    terminal.send("1\n")
    terminal.expect("this model's classes are true, false")
    terminal.send("1")
    terminal.expect("no prediction")
    terminal.expect("nothing to ask")
    assert terminal.wait() == 0
    assert client.model("declared")["examples"] == 1


@pytest.mark.parametrize("end", ["\x03", "\x04"])
def test_an_interrupted_session_releases_its_leases(client, model, label, end):
    terminal = label("--prefetch", "3")
    terminal.expect("q quit")
    eventually(lambda: len(leased(client, model)) >= 4)
    terminal.send(end)
    assert terminal.wait() == 0
    assert leased(client, model) == set()
    assert "4 given back" in terminal.text


@pytest.mark.parametrize("end", ["SIGTERM", "SIGHUP", "closed", "to another thread"])
def test_a_session_whose_terminal_closes_releases_its_leases(client, model, label, end):
    terminal = label()
    terminal.expect("q quit")
    eventually(lambda: len(leased(client, model)) >= 3)
    if end == "closed":
        terminal.close()
    elif end == "to another thread":  # which does not interrupt the wait for a key, as a signal just before the wait
        pid = terminal.process.pid
        thread = max(int(each.name) for each in Path(f"/proc/{pid}/task").iterdir())
        assert ctypes.CDLL(None).tgkill(pid, thread, signal.SIGTERM) == 0
    else:
        terminal.process.send_signal(getattr(signal, end))
    terminal.process.wait(PATIENCE_S)
    assert leased(client, model) == set()


@pytest.mark.long
def test_leases_are_renewed_while_a_person_thinks(client, model, label):
    terminal = label("--lease", "4", "--prefetch", "1")
    terminal.expect("q quit")
    eventually(lambda: len(leased(client, model)) >= 2)
    mine = leased(client, model)

    def last_until():
        return min(datetime.fromisoformat(lease["expires_at"]) for lease in client.queries(model)["leased"])

    without_it = last_until()
    eventually(lambda: last_until() > without_it + timedelta(seconds=4))  # so the lease was renewed
    assert leased(client, model) == mine
    terminal.send("1")
    terminal.expect("1 labelled")


def test_two_annotators_get_different_questions(client, model, label):
    terminal = label()
    terminal.expect("q quit")
    eventually(lambda: len(leased(client, model)) >= 3)
    mine = leased(client, model)
    others = {query["id"] for query in client.query(model, annotator="bob", n=11)["queries"]}
    assert len(others) == 8
    assert not mine & others


def test_a_late_label_is_refused_in_one_line_and_the_next_question_comes(client, model, label):
    terminal = label("--prefetch", "0", "--strategy", "active")
    terminal.expect("m5")
    terminal.expect("q quit")
    (lease,) = client.queries(model)["leased"]
    client.learn(model, [{"id": lease["id"], "x": [0.5, 0.5], "y": "ham"}])
    terminal.send("2")
    terminal.expect("(")
    terminal.expect("q quit")
    terminal.send("q")
    assert terminal.wait() == 0
    assert client.model(model)["examples"] == 3


def test_the_contents_of_an_example_cannot_control_the_terminal(client, label):
    features = {"type": "named"}
    client.create_model("named", kernel=KERNEL, features=features, labels=ALWAYS)
    x = {"subject": "[red]cheap\x1b]0;owned\x07 \x1b[31mpills", "amount": 12.5, "known": False}
    client.offer("named", [{"id": "one", "x": x}])
    terminal = label(name="named")
    question = terminal.expect("q quit")
    assert "[red]cheap" in question
    assert "12.5" in question
    assert "\x1b]0;" not in terminal.raw
    assert "\x1b[31m" not in terminal.raw
    assert "\x07" not in terminal.raw


@pytest.mark.parametrize(
    ("show", "read"),
    [
        ("[red]look at this\x1b[31m", "[red]look at this"),
        ({"picture": "https://a.example/1.png"}, "https://a.example/1.png"),
        ([1, "two"], '[1, "two"]'),
    ],
)
def test_a_candidates_show_is_displayed_instead_of_its_x(client, label, show, read):
    name = f"m{next(NUMBERS)}"
    client.create_model(name, kernel=KERNEL, features={"type": "dense", "dim": 2}, labels=ALWAYS)
    client.offer(name, [{"id": "one", "x": [0.123, 0.456], "show": show}])
    terminal = label(name=name)
    question = terminal.expect("q quit")
    assert read in question
    assert "0.123" not in question
    assert "\x1b[31m" not in terminal.raw


def test_a_text_is_shown_unchanged(client, label):
    client.create_model("texts", kernel={"type": "linear"}, features={"type": "text"}, labels=ALWAYS)
    client.offer("texts", [{"id": "one", "x": "Is this [bold]spam[/bold]?"}])
    assert "Is this [bold]spam[/bold]?" in label(name="texts").expect("q quit")


def test_an_empty_pool_is_reported_and_is_no_error(client, label):
    client.create_model("empty", kernel=KERNEL, features={"type": "dense", "dim": 1})
    terminal = label(name="empty")
    terminal.expect("nothing to ask: 0 in the pool, 0 of them leased")
    assert terminal.wait() == 0


def test_a_missing_model_gives_one_line(label):
    terminal = label(name="absent")
    assert terminal.wait() == 1
    assert terminal.text == "hinged: there is no model 'absent' (not_found)\n"


# -- a session without a terminal


def session(client, model, **options):
    return Session(client, model, "ann", **{"strategy": "active", "lease_s": 60, "prefetch": 2} | options)


@pytest.mark.parametrize("prefetch", [0, 1, 3, 20])
def test_a_session_asks_each_candidate_once_and_ends_with_the_pool(client, model, prefetch):
    with session(client, model, prefetch=prefetch) as asked:
        ids = []
        while (candidate := asked.next()) is not None:
            ids.append(candidate["id"])
            asked.answer(candidate, "ham" if len(ids) % 2 else "spam")
        assert sorted(ids) == sorted(f"m{i}" for i in range(11))
        assert asked.tally.labelled == asked.tally.predicted == 11
        assert asked.close() == 0


def test_without_prefetch_each_question_is_chosen_after_the_previous_label(client, model):
    with session(client, model, prefetch=0) as asked:
        for _ in range(5):
            candidate = asked.next()
            assert leased(client, model) == {candidate["id"]}
            asked.answer(candidate, "ham")


@pytest.mark.parametrize("prefetch", [0, 2])
def test_two_sessions_of_one_annotator_never_get_the_same_question(client, model, prefetch):
    with session(client, model, prefetch=prefetch) as one, session(client, model, prefetch=prefetch) as other:
        asked = []
        while candidates := [(each, c) for each in (one, other) if (c := each.next()) is not None]:
            for each, candidate in candidates:
                asked.append(candidate["id"])
                each.answer(candidate, "ham")
        assert sorted(asked) == sorted(f"m{i}" for i in range(11))


def test_a_session_that_ends_keeps_the_leases_of_the_annotators_other_session(client, model):
    with session(client, model) as one:
        question = one.next()
        with session(client, model) as other:
            other.next()
            assert len(leased(client, model)) == 6
        assert question["id"] in leased(client, model)
        assert len(leased(client, model)) == 3
        one.answer(question, "ham")


def test_closing_a_session_twice_is_harmless(client, model):
    asked = session(client, model)
    with asked:
        asked.next()
        assert asked.close() == 3
        assert asked.close() == 0


def test_undo_shows_the_last_answer_which_can_be_changed_or_kept(client, model, label):
    terminal = label("--prefetch", "0")
    terminal.expect("q quit")
    terminal.send("1")
    terminal.expect("1 labelled")
    terminal.expect("q quit")
    terminal.send("u")
    terminal.expect("your answer was ham")
    terminal.send("2")
    terminal.expect("changed to spam")
    terminal.expect("q quit")
    (answer,) = client.answers(model, annotator="ann")["answers"]
    assert (answer["id"], answer["label"]) == ("m5", "spam")
    eventually(lambda: not client.model(model)["jobs"])
    assert client.example(model, "m5")["label"] == "spam"
    terminal.send("u")
    terminal.expect("your answer was spam")
    terminal.send("s")  # no label: the answer does not change, and nothing is skipped
    terminal.expect("still spam")
    terminal.expect("q quit")
    terminal.send("q")
    assert terminal.wait() == 0
    assert "1 labelled, " in terminal.text
    assert client.answers(model)["annotators"]["ann"]["changed"] == 1


def test_an_answer_to_a_forgotten_example_stays_and_so_does_the_question(client, model, label):
    terminal = label("--prefetch", "0")
    terminal.expect("q quit")
    terminal.send("1")
    terminal.expect("1 labelled")
    terminal.expect("q quit")
    client.wait(client.forget(model, "m5"))
    asked = [held["id"] for held in client.queries(model)["leased"]]
    terminal.send("u2")
    terminal.expect("still ham: the example 'm5' was forgotten (gone")
    terminal.expect("q quit")
    assert [held["id"] for held in client.queries(model)["leased"]] == asked
    terminal.send("q")
    assert terminal.wait() == 0


def test_the_tally_of_correct_predictions_uses_the_last_label(client, model):
    session = Session(client, model, "ann", strategy="active", lease_s=60, prefetch=0)
    with session:
        candidate = session.next()
        result = session.answer(candidate, "ham")
        other = "spam" if result["prediction"] == "ham" else "ham"
        answered = Answered(candidate, "ham", result["prediction"])
        before = session.tally.right
        session.change(answered, "spam")
        assert (before, session.tally.right) == (int(other == "spam"), int(other == "ham"))
