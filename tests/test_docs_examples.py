"""What the documents show can be done: in order, on a fresh server, with the answers that they show."""

import json
from contextlib import closing

import pytest

from tests.helpers.doc_examples import Walk, alike, blocks, runs
from tests.helpers.server import ROOT, RunningServer

pytestmark = [pytest.mark.server, pytest.mark.longest]

SHELVES = ("tutorials", "how-to", "reference", "explanation")
PAGES = ["README.md", "docs/package.md"] + [
    path.relative_to(ROOT).as_posix() for shelf in SHELVES for path in sorted(ROOT.glob(f"docs/{shelf}/*.md"))
]
DOCUMENTS = [page for page in PAGES if any(runs(text) for _, text, _ in blocks(page))]
"""Each page that has a block that can be run."""
PICTURES = {"docs/explanation/gallery.md": {"moons", "stream", "race", "budget", "weights", "server"}}
"""That a document draws."""


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_shows_can_be_done_with_the_answers_that_it_shows(document, tmp_path):
    with RunningServer(tmp_path / "data") as server:
        walk = Walk(server.url, tmp_path)
        with closing(walk):
            for language, text, shown in blocks(document):
                got = walk(language, text, shown)
                if shown is not None:
                    assert alike(json.loads(shown), got, walk.drawn), f"{text}\nshown: {shown}\ngot: {json.dumps(got)}"
    assert walk.ran > 0
    assert {path.stem for path in tmp_path.glob("*.png")} == PICTURES.get(document, set())


def test_every_block_that_looks_like_an_example_is_one():
    """A language that is misspelt, or an indented fence, would be passed over."""
    for document in DOCUMENTS:
        for language, text, shown in blocks(document):
            assert "```" not in text + (shown or "")
            assert language in ("sh", "python")


def test_an_answer_that_changed_is_noticed():
    shown = {"a": 1.5, "b": ["x", None, True], "c": {"d": 3}, "at": "2026-05-01T12:00:00.000Z"}
    assert alike(shown, shown | {"a": 2.5, "c": {"d": 4}, "at": "2026-11-01T12:00:09.123Z"})
    for other in (
        shown | {"e": 1},
        shown | {"a": 1},
        shown | {"b": ["y", None, True]},
        shown | {"b": ["x", None, False]},
        shown | {"b": ["x", None]},
        shown | {"c": {}},
        shown | {"at": "soon"},
    ):
        assert not alike(shown, other)


def test_what_is_drawn_may_differ_and_is_known_by_what_was_shown():
    drawn = {}
    assert alike([{"id": "a", "lease": "told"}], [{"id": "a", "lease": "now"}], drawn)
    assert drawn == {"told": "now"}
    assert not alike([{"id": "a", "lease": "told"}], [{"id": "a"}], drawn)


@pytest.mark.parametrize(
    ("language", "text"),
    [("sh", "false\n"), ("sh", "echo '{\"error\": {}}'\n"), ("sh", "hinged models --nothing\n"), ("python", "1 / 0\n")],
)
def test_a_block_that_fails_is_noticed(language, text, tmp_path):
    with pytest.raises((AssertionError, ZeroDivisionError)):
        Walk("http://127.0.0.1:9", tmp_path)(language, text)
