import pytest
from click.testing import CliRunner

from hinged.commands.cli import cli, serve
from hinged.service.edge.children import as_environment
from hinged.service.settings import Settings


@pytest.fixture
def run():
    def run(*arguments):
        return CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="hinged")

    return run


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,0\n2,1\n")
    return path


def one_line(result, code):
    """Check that a command failed with this code and one line on stderr. Return the line."""
    assert result.exit_code == code
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("command", [[], ["serve"], ["replay"], ["demo"]])
def test_every_command_has_help(run, command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(" ".join(["Usage: hinged", *command]))


def test_hinged_without_a_command_lists_the_commands(run):
    assert "replay" in run().output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--C", "0"], "hinged replay: Invalid value for '--C': expected a number > 0, found '0'"),
        (["--C", "nan"], "found 'nan'"),
        (["--tol", "inf"], "found 'inf'"),
        (["--gamma", "wide"], "Invalid value for '--gamma': expected a number > 0, found 'wide'"),
        (["--batch", "0"], "--batch"),
        (["--limit", "-1"], "--limit"),
        (["--url", "localhost:8000"], "Invalid value for '--url': url must be like http://127.0.0.1:8000"),
        (["--format", "xml"], "--format"),
        (["--test", "none.csv"], "File 'none.csv' does not exist"),
        (["--nothing"], "No such option"),
        (["--delimiter", "::"], "expected one character or tab, found '::'"),
    ],
)
def test_an_invalid_option_gives_one_line_and_exit_code_two(run, table, options, message):
    assert message in one_line(run("replay", table, "--label", "y", *options), 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["replay"], "Missing argument 'FILE'"), (["unlearn"], "No such command"), (["demo", "--port", "x"], "--port")],
)
def test_an_invalid_command_gives_one_line_and_exit_code_two(run, arguments, message):
    assert message in one_line(run(*arguments), 2)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,y\nx,0\n", ["--label", "y", "--numbers"], "line 2, column 'a': expected a number, found 'x'"),
        ("a,y\n1,0\n", [], "--label is needed, one of 'a', 'y'"),
        ("a,y\n", ["--label", "y"], "holds no examples"),
        ("a,y\n1,0\n", ["--format", "libsvm"], "line 1: expected index:value"),
        ("a,y\n1,0\n", ["--format", "npz"], "cannot read"),
    ],
)
def test_an_invalid_file_gives_one_line_and_exit_code_one(run, tmp_path, text, options, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    if "libsvm" in options:
        path.write_text("1 a\n")
    assert message in one_line(run("replay", path, *options), 1)


def test_training_and_test_files_of_different_kinds_are_refused(run, table, tmp_path):
    other = tmp_path / "a.svm"
    other.write_text("1 1:1\n")
    line = one_line(run("replay", other, "--label", "y", "--test", table), 1)
    assert line == "hinged: a.csv and a.svm do not have the same kind of features"


def test_a_missing_server_gives_one_line_that_says_how_to_start_one(run, table, free_url):
    line = one_line(run("replay", table, "--label", "y", "--url", free_url), 1)
    assert line.endswith(f"start a server with: hinged serve --port {free_url.rpartition(':')[2]}")


def test_a_refusal_of_the_server_gives_one_line(run, table, server):
    def answer(method, path, _body):
        if path == "/readyz":
            return 200, {}
        if method == "GET":
            return 404, {"error": {"code": "not_found", "message": "no model"}}
        return 422, {"error": {"code": "invalid", "message": "no such\nkernel", "details": {"kernel": "magic"}}}

    server.answer = answer
    result = run("replay", table, "--label", "y", "--url", server.url, "--kernel", "magic")
    assert one_line(result, 1) == "hinged: no such kernel (invalid, kernel magic)"


def test_a_process_of_several_gets_every_setting_that_the_command_line_may_set(monkeypatch):
    given = {"host": "::1", "port": 1, "data_dir": "d", "processes": 2, "followers": 1, "node": "http://a:1"}
    assert given.keys() == {option.name for option in serve.params}
    for name, value in as_environment(Settings(**given)).items():
        monkeypatch.setenv(name, value)
    assert Settings() == Settings(**given)
