"""The examples of each document work in order on a fresh server, and give the answers that the document shows."""

import json
from contextlib import closing

import pytest

from tests.helpers.doc_examples import Walk, alike, blocks, runs
from tests.helpers.server import ROOT, RunningServer

SHELVES = ("tutorials", "how-to", "reference", "explanation")
PAGES = ["README.md", "docs/package.md"] + [
    path.relative_to(ROOT).as_posix() for shelf in SHELVES for path in sorted(ROOT.glob(f"docs/{shelf}/*.md"))
]
DOCUMENTS = [page for page in PAGES if any(runs(text) for _, text, _ in blocks(page))]
"""Each page with at least one block that can be run."""
PICTURES = {"docs/explanation/gallery.md": {"moons", "stream", "race", "budget", "weights", "server"}}
"""The pictures that the examples of a document draw."""


@pytest.mark.long
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_examples_of_a_document_give_the_answers_that_it_shows(document, tmp_path):
    with RunningServer(tmp_path / "data") as server:
        walk = Walk(server.url, tmp_path)
        with closing(walk):
            for language, text, shown in blocks(document):
                got = walk(language, text, shown)
                if shown is not None:
                    assert alike(json.loads(shown), got, walk.drawn), f"{text}\nshown: {shown}\ngot: {json.dumps(got)}"
    assert walk.ran > 0
    assert {path.stem for path in tmp_path.glob("*.png")} == PICTURES.get(document, set())


def test_no_example_is_skipped_because_of_a_wrong_fence():
    """A misspelt language or an indented fence would hide a block from the walk."""
    for document in DOCUMENTS:
        for language, text, shown in blocks(document):
            assert "```" not in text + (shown or "")
            assert language in ("sh", "python")


def test_a_changed_answer_differs_from_the_answer_that_is_shown():
    shown = {"a": 1.5, "b": ["x", None, True], "c": {"d": 3}, "at": "2026-05-01T12:00:00.000Z"}
    assert alike(shown, shown | {"c": {"d": 4}, "at": "2026-11-01T12:00:09.123Z"})
    for other in (
        shown | {"e": 1},
        shown | {"a": 1},
        shown | {"a": 2.5},
        shown | {"b": ["y", None, True]},
        shown | {"b": ["x", None, False]},
        shown | {"b": ["x", None]},
        shown | {"c": {}},
        shown | {"at": "soon"},
    ):
        assert not alike(shown, other)


def test_random_values_may_differ_and_replace_the_values_shown():
    drawn = {}
    assert alike([{"id": "a", "lease": "told"}], [{"id": "a", "lease": "now"}], drawn)
    assert drawn == {"told": "now"}
    assert not alike([{"id": "a", "lease": "told"}], [{"id": "a"}], drawn)


@pytest.mark.parametrize(
    ("language", "text"),
    [("sh", "false\n"), ("sh", "echo '{\"error\": {}}'\n"), ("sh", "hinged models --nothing\n"), ("python", "1 / 0\n")],
)
def test_a_block_that_fails_raises_an_error(language, text, tmp_path):
    with pytest.raises((AssertionError, ZeroDivisionError)):
        Walk("http://127.0.0.1:9", tmp_path)(language, text)
