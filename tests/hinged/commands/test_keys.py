import json

import pytest
from click.testing import CliRunner

from hinged.commands.cli import cli
from hinged.service.edge.keys import Keyring, read_keys


@pytest.fixture
def run(tmp_path):
    """Run `hinged keys ...` with a new file of keys."""

    def run(*arguments):
        environment = {"HINGED_KEYS_FILE": str(tmp_path / "keys.json")}
        return CliRunner().invoke(cli, ["keys", *arguments], prog_name="hinged", env=environment)

    return run


def test_a_new_key_is_printed_once_and_works_for_its_role_and_models(run, tmp_path):
    made = run("create", "ann", "--role", "annotator", "--models", "fraud-*", "--models", "spam")
    assert made.exit_code == 0
    text = made.stdout.removesuffix("\n")
    assert "\n" not in text
    assert "not shown again" in made.stderr
    key = Keyring(tmp_path / "keys.json").find(text)
    assert (key.name, key.role, key.models) == ("ann", "annotator", ("fraud-*", "spam"))
    shown = run("list").stdout + run("list", "--json").stdout
    assert text not in shown
    assert key.sha256 not in shown


def test_keys_are_listed_and_revoked(run, tmp_path):
    run("create", "ann", "--role", "admin")
    run("create", "bob", "--role", "reader", "--models", "spam")
    (ann, bob) = json.loads(run("list", "--json").stdout)
    assert {name: ann[name] for name in ("name", "role", "models")} == {"name": "ann", "role": "admin", "models": ["*"]}
    assert bob["models"] == ["spam"]
    table = run("list").stdout
    assert "ann" in table
    assert "spam" in table
    assert run("revoke", "ann").stdout == "ann is revoked\n"
    assert [key.name for key in read_keys(tmp_path / "keys.json")] == ["bob"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["create", "ann"], 2, "Missing option '--role'"),
        (["create", "ann", "--role", "god"], 2, "'god'"),
        (["create", "a b", "--role", "reader"], 1, "'a b'"),
        (["create", "ann", "--role", "reader", "--models", "*x"], 1, "'*x'"),
        (["create", "ann", "--role", "reader", "--file", "/nowhere/keys.json"], 1, "/nowhere"),
        (["revoke", "ann"], 1, "no key named 'ann'"),
        (["list"], 1, "keys.json: No such file"),
    ],
)
def test_an_error_gives_one_line(run, arguments, code, words):
    result = run(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert words in line


def test_a_missing_key_file_gives_one_line_that_says_how_to_name_a_file():
    result = CliRunner().invoke(cli, ["keys", "list"], prog_name="hinged", env={"HINGED_KEYS_FILE": None})
    assert result.exit_code == 2
    assert "HINGED_KEYS_FILE" in result.stderr
