"""No command lets text from the models of a server control the user's terminal."""

import itertools

import pytest

from tests.helpers.command import argv, hinged
from tests.helpers.terminal import Terminal

HOSTILE = (
    "\x1b]0;owned\x07", "\x1b[2J\x1b[1;1H", "\x9b31m", "\x1bP+q544e\x1b\\", "\u202egnirts", "a\rb", "\x08\x08", "\x7f",
)  # fmt: skip
STEERING = ("\x1b]0;owned", "\x1b[2J", "\x9b31m", "\x1bP+q", "\u202e", "\x07", "a\rb", "\x08", "\x7f")
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def model(client):
    """A model with hostile labels, names, values and `show`. The model's ids are harmless, because the server refuses
    hostile ids.
    """
    name = "hostile"
    client.create_model(name, kernel={"type": "rbf", "gamma": 1.0}, C=1, features={"type": "named", "warmup": 0})
    for k, text in enumerate(HOSTILE):
        client.learn(name, [{"id": f"e{k}", "x": {"n": k, text: text}, "y": text}])
    client.learn(name, [{"id": "odd", "x": {"n": 0, HOSTILE[0]: HOSTILE[0]}, "y": HOSTILE[1]}])
    client.offer(name, [{"id": f"c{k}", "x": {"n": k, text: text}} for k, text in enumerate(HOSTILE)])
    client.offer(name, [{"id": f"s{k}", "x": {"n": k}, "show": text} for k, text in enumerate(HOSTILE)])
    return name


X = '{"n": 1, "\\u001b]0;owned\\u0007": "\\u009b31m", "\\u202e": 1}'
ASKED = [
    ("models",), ("models", "--json"), ("show", "MODEL"), ("show", "MODEL", "--json"),
    ("labels", "MODEL"), ("labels", "MODEL", "--format", "jsonl"), ("labels", "MODEL", "--label", "\x1b]0;owned\x07"),
    ("predict", "MODEL", "--x", X), ("predict", "MODEL", "--x", X, "--csv"), ("predict", "MODEL", "--x", X, "--json"),
    ("predict", "MODEL", "--x", X, "--explain", "5"), ("suspects", "MODEL"), ("suspects", "MODEL", "--json"),
    ("query", "MODEL", "-n", "12", "--annotator", "ANN"), ("query", "MODEL", "--annotator", "ANN", "--json"),
    ("show", "\x9b31m"),
    ("predict", "MODEL", "--x", '"\x1b]0;owned\x07"'),
    ("correct", "MODEL", "e0", "\x1b]0;owned\x07"),
    ("labels", "MODEL", "--since", "\x1b]0;owned\x07"), ("forget", "MODEL", "\x1b]0;owned\x07"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", ASKED, ids=lambda arguments: " ".join(arguments[:3:2]).encode("ascii", "ignore"))
def test_no_command_lets_hostile_text_control_a_terminal(real, model, arguments):
    names = {"MODEL": model, "ANN": f"ann{next(NUMBERS)}"}
    asked = argv(*(names.get(argument, argument) for argument in arguments))
    with Terminal(asked, {"HINGED_URL": real.url, "COLUMNS": "200"}) as opened:
        opened.wait()
        for steering in STEERING:
            assert steering not in opened.raw, (steering, opened.raw[-500:])
        assert opened.text.strip()


def test_a_pipe_gets_the_labels_unchanged(real, model):
    said = hinged("labels", model, "--url", real.url, text=False).stdout.decode()
    assert "\x1b]0;owned\x07" in said
    assert "\u202egnirts" in said
