"""No document, docstring, comment, message or label has a sign of English that people read twice.

tests/helpers/tells.py has the signs. An example of bad English below has underscores instead of spaces, so that the
program does not find it in this file.
"""

import pytest

from tests.helpers import tells
from tests.helpers.server import ROOT

PAIRS = [
    ("The_limit_is_that_of_the_store.", "The limit is the limit of the store."),
    ("Keys_replace_those_of_the_old_server.", "The new keys replace the keys of the old server."),
    ("It_stands_in_the_place_of_a_label.", "It stands there instead of a label."),
    ("Such_a_value_makes_no_sense.", "Such a value is invalid."),
    ("This_file_is_none.", "This is not a file of the project."),
    ("The_model_waits_until_he_answers.", "The model waits until the annotator answers."),
    ("The_server_takes_the_one_with_less_work.", "The server takes the queue with less work."),
    ("The_newest_ones_are_kept.", "The server keeps the newest snapshots."),
    ("A_model_waits_for_others.", "A model waits for other models."),
    ("The_server_refuses_it,_for_it_is_too_long.", "The server refuses the body because it is too long."),
    ("Who_asks_for_both_is_served.", "A client that asks for both is served."),
    ("It_learns._What_is_read_is_kept.", "It learns. The server keeps the rows that it reads."),
    ("The_file_comes_to_about_a_megabyte.", "The file has about a megabyte."),
    ("The_key_is_told_once.", "The command prints the key once."),
    ("It_takes_so_many_at_most.", "It takes at most ten requests."),
    ("The_table_is_written_anew.", "The program writes the table again."),
    ("_".join(["word"] * 36) + ".", " ".join(["word"] * 35) + "."),
]
"""Bad sentences, and the same sentences in plain English."""
ODD = PAIRS[0][0]


def spaced(odd):
    return odd.replace("_", " ")


def found_in(folder, name, content):
    """Return the lines of a file in which the program finds a tell."""
    path = folder / name
    path.write_text(spaced(content))
    return [line for line, _, _ in tells.tells(path)]


def test_no_file_has_a_tell():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {told}: {words}"
        for path in tells.files()
        for line, told, words in tells.tells(path)
    ]
    assert found == []


@pytest.mark.parametrize(("odd", "plain"), PAIRS)
def test_a_bad_sentence_has_a_tell_and_its_plain_form_has_none(odd, plain):
    assert tells.of_text(spaced(odd))
    assert tells.of_text(plain) == []


def test_each_pattern_finds_an_example():
    found = {told for odd, _ in PAIRS for told, _ in tells.of_text(spaced(odd))}
    assert found == tells.TELLS.keys() | {f"at most {tells.WORDS_MAX} words"}


def test_a_question_may_begin_with_who_or_what():
    assert tells.of_text("Who may read a model? What does the server promise?") == []


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (f'"""{ODD}"""\n', [1]),
        (f'def f():\n    """Say more.\n\n    {ODD}\n    """\n', [2]),
        (f'LIMIT = 1\n"""{ODD}"""\n', [2]),
        (f"\n# {ODD}\nLIMIT = 1\n", [2]),
        (f"LIMIT = 1  # {ODD}\n", [1]),
        ("# The limit is that\n# of the store.\nLIMIT = 1\n", [1]),
        (f'\nraise ValueError("{ODD}")\n', [2]),
        (f'raise ValueError("No such field: `{ODD}`")\n', []),
        ("others=those\n", []),
        ('NAMES = ["others",_"anew"]\n', []),
    ],
)
def test_docstrings_comments_and_messages_of_python_are_read(tmp_path, content, lines):
    assert found_in(tmp_path, "a.py", content) == lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (f"{ODD}\n", [1]),
        (f"- An item.\n- {ODD}\n", [2]),
        (f"1. {ODD}\n", [1]),
        (f"| word | meaning |\n|---|---|\n| limit | {ODD} |\n", [3]),
        (f"| {ODD} | a limit |\n", [1]),
        ("The_limit_is_that\nof_the_store.\n", [1]),
        (f"```\n{ODD}\n```\n", []),
        ("The field is `that_of`.\n", []),
        ("See [the limits](that_of.md).\n", []),
    ],
)
def test_paragraphs_items_and_cells_of_markdown_are_read(tmp_path, content, lines):
    assert found_in(tmp_path, "a.md", content) == lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (f'\nconst text = "{ODD}";\n', [2]),
        (f"const text = html`<p>{ODD}</p>`;\n", [1]),
        (f"call(); // {ODD}\n", [1]),
        ("const_others_=_those;\n", []),
    ],
)
def test_strings_and_comments_of_javascript_are_read(tmp_path, content, lines):
    assert found_in(tmp_path, "a.js", content) == lines


def test_replaced_decisions_vendored_files_and_links_are_left_out(tmp_path, monkeypatch):
    (tmp_path / "vendor").mkdir()
    for name, content in {
        "a.py": "", "a.js": "", "a.txt": "", "stands.md": "# 1\n\nStatus: stands.\n",
        "replaced.md": "# 2\n\nStatus: replaced by ADR 1.\n", "vendor/b.js": "",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(content)
    (tmp_path / "link.md").symlink_to("stands.md")
    monkeypatch.setattr(tells, "ROOT", tmp_path)
    assert sorted(path.name for path in tells.files(["."])) == ["a.js", "a.py", "stands.md"]
