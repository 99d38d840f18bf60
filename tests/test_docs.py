"""The documents list what the code has. tests/test_docs_examples.py runs their examples."""

import json
import os
import re
import runpy
import subprocess
import sys

import pytest

import hinged.sklearn
from hinged import Client
from hinged.commands import backup
from hinged.commands.cli import cli
from hinged.service import errors, limits
from hinged.service.app import create_app
from hinged.service.data.parameters import CONFIGURATION_OF, SOLVER_NAMES
from hinged.service.data.parts import Labelling
from hinged.service.engine.transfer import exports
from hinged.service.model.events import KINDS
from hinged.service.model.state import FORMAT
from hinged.service.settings import Settings
from hinged.service.store.sqlite.schema import SCHEMA_VERSION
from tests.helpers.server import ROOT

DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
)
DECISIONS = [name for name in DOCUMENTS if re.match(r"docs/adr/\d", name)]
REFERENCE = ("http", "settings", "solvers", "estimators", "configuration", "commands", "limits", "streams")
HTTP, SETTINGS, SOLVERS, ESTIMATORS, CONFIGURATION, COMMANDS, LIMITS, STREAMS = (
    (ROOT / f"docs/reference/{name}.md").read_text() for name in REFERENCE
)
UPGRADING = (ROOT / "docs/how-to/upgrade.md").read_text()
METHODS = ("get", "put", "post", "delete", "patch")


def rows(text):
    """Return the cells of every table row."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:3] == "| `"]


def written(number):
    """Return the forms in which a document may write a limit."""
    text = f"{number:,}" if isinstance(number, int) else f"{number:,g}"
    return {text, f"{text} s", f"{number / 2**20:g} MiB", f"{number / 10**6:g} MB"}


def default_of(field):
    """Return a default in the form of the table."""
    value = field.default
    if value is None:
        return "(none)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(value) or "(none)"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


@pytest.mark.parametrize("decision", DECISIONS)
def test_each_decision_says_whether_it_stands_what_replaced_or_amended_it_and_its_date(decision):
    status = (ROOT / decision).read_text().splitlines()[2]
    adr = r"\[ADR (\d+)\]\((\d{4})-[\w-]+\.md\)"
    amended = rf", amended by {adr}( and {adr}|, {adr})*"
    date = r"\d{4}-\d\d-\d\d"
    dates = rf"Decided {date}(, [\w ]+ {date})*\."
    assert re.fullmatch(rf"Status: (stands({amended})?|replaced by {adr})\. {dates}", status), status
    newer = [int(number) for number, _ in re.findall(adr, status)]
    assert all(number > int(decision[9:13]) for number in newer), status


def test_the_index_of_decisions_has_each_with_its_title_date_and_status():
    table = (ROOT / "docs/adr/index.md").read_text().split("##")[0]
    found = {tuple(cells) for line in table.splitlines() if (cells := line.strip("| ").split(" | ")[:4])[0].isdigit()}
    expected = set()
    for decision in DECISIONS:
        title, _, status = (ROOT / decision).read_text().splitlines()[:3]
        number, name = title.removeprefix("# ").split(". ", 1)
        stands, date = re.fullmatch(r"Status: (.*?)\. Decided (\S{10}).*", status).groups()
        expected.add((number, f"[{name}]({decision.removeprefix('docs/adr/')})", date, stands))
    assert found == expected


def test_each_page_of_the_laboratory_is_in_its_index():
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/lab/index.md").read_text())
    assert sorted(listed) == sorted(p.name for p in (ROOT / "docs/lab").glob("*.md") if p.name != "index.md")


def test_the_table_lists_each_setting_with_its_variable_and_default():
    found = {row[0]: row[1] for row in rows(SETTINGS)}
    expected = {
        f"`HINGED_{name.upper()}`": default_of(field) if default_of(field) == "(none)" else f"`{default_of(field)}`"
        for name, field in Settings.model_fields.items()
    }
    assert list(found.items()) == list(expected.items())


def test_a_document_names_each_limit_with_its_value():
    explained = [path.read_text() for path in (ROOT / "docs/explanation").glob("*.md")]
    text = "".join([LIMITS, STREAMS, *explained])
    found = {name: value for value, name in re.findall(r"([\d.,]+(?: (?:s|MB|MiB))?) \(`([A-Z_]+)`\)", text)}
    known = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert found.keys() == known.keys()
    assert {name for name, value in known.items() if found[name] not in written(value)} == set()


def test_the_table_lists_each_estimator_with_its_solver():
    listed = {name for row in rows(ESTIMATORS) for name in re.findall(r"`(\w+Classifier)`", row[0])}
    assert listed == {name for name in hinged.sklearn.__all__ if hasattr(getattr(hinged.sklearn, name), "rules")}
    named = {name for row in rows(ESTIMATORS) for name in re.findall(r"`([a-z+2-]+)`", row[1])}
    assert {name for name in SOLVER_NAMES if not name.startswith("tracking-")} <= named


def test_each_route_has_a_section_and_each_section_describes_a_route(tmp_path):
    paths = create_app(Settings(data_dir=tmp_path)).openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods if method in METHODS}
    titles = re.findall(r"^### .*", HTTP, re.MULTILINE)
    assert set(re.findall(r"`([A-Z]+ /[^`]*)`", "".join(titles))) == routes


def test_the_table_lists_each_error_with_its_status():
    known = [errors.ServiceError, *_below(errors.ServiceError)]
    expected = {(error.code, str(error.status)) for error in known}
    table = HTTP.split("## Errors", 1)[1]
    assert {(row[0].strip("`"), row[1]) for row in rows(table)} == expected


def _below(kind):
    return [found for child in kind.__subclasses__() for found in (child, *_below(child))]


def test_the_documents_explain_each_part_of_a_configuration():
    found = {row[0].strip("`") for row in rows(CONFIGURATION)}
    own = {row[0].strip("`") for row in rows(SOLVERS.split("## Parameters", 1)[1])}
    for kind in CONFIGURATION_OF.values():
        assert found | own >= set(kind.model_fields)


def test_the_table_of_parameters_is_what_the_solvers_declare():
    written = runpy.run_path(ROOT / "docs/tables.py")["written"]
    assert written(SOLVERS) == SOLVERS, "run python docs/tables.py, which writes the table again"


def test_a_document_names_each_solver():
    text = (ROOT / "docs/explanation/solvers.md").read_text()
    named = {name.strip("` ") for row in rows(text) for name in row[0].split(",")}
    assert named >= set(SOLVER_NAMES)


def test_a_document_names_each_method_of_the_client():
    named = set(re.findall(r"`(\w+)`", (ROOT / "docs/reference/client.md").read_text().split("## Methods")[1]))
    methods = {name for name in dir(Client) if not name.startswith("_") and callable(getattr(Client, name))}
    assert named == methods - {"close"}


def test_a_document_names_each_command():
    for name in cli.commands:
        assert f"hinged {name}" in COMMANDS


def test_the_change_log_names_the_format_of_snapshots():
    changes = (ROOT / "CHANGELOG.md").read_text()
    newest = max(int(number) for number in re.findall(r"[Ss]napshot format: format (\d+)", changes))
    assert newest == FORMAT


def test_the_page_about_upgrades_lists_the_formats_and_events_that_this_version_reads():
    found = {line.split(" | ")[0].strip("| "): line.split(" | ")[1] for line in UPGRADING.splitlines() if " | " in line}
    assert found["snapshots"] == f"format {FORMAT}"
    assert found["SQLite's tables"] == f"schema {SCHEMA_VERSION}"
    assert found["exports (`hinged export`)"] == f"file {exports.VERSION}, with a snapshot of format {FORMAT}"
    assert found["backups (`hinged backup`)"] == f"index {backup.VERSION}, with exports"
    listed = [
        kind
        for line in UPGRADING.split("events that it added")[1].split("##")[0].splitlines()
        for kind in re.findall(r"`(\w+)`", line)
    ]
    assert sorted(listed) == sorted(KINDS)


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name.startswith("docs/") and "/lab/" not in name])
def test_a_document_that_installs_hinged_says_from_where(document):
    text = (ROOT / document).read_text()
    installs = re.search(r"""pip install (--\S+ )*["']?hinged""", text)
    assert not installs or "no package index" in text or "](../package.md" in text


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_resolve(document):
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        assert "://" not in link, link
        name, _, anchor = link.partition("#")
        target = (ROOT / document).parent / name if name else ROOT / document
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.*)", target.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, link


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_files_that_a_document_names_exist_unless_it_is_a_replaced_decision(document):
    if "\nStatus: replaced" in (ROOT / document).read_text():
        return
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    for name in re.findall(r"`((?:service|solvers|hinged|tests|docs|benchmarks)/[\w./]*)`", text):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_programs_that_a_document_runs_exist(document):
    named = re.findall(r"\b(?:benchmarks|tests|docker)/[\w/]+\.py\b", (ROOT / document).read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_document_explains_each_part_of_labels_with_its_default():
    table = (ROOT / "docs/reference/labelling.md").read_text().split("## Settings")[1]
    found = {row[0].strip("`"): row[1] for row in rows(table)}
    expected = {name: json.dumps(field.default) for name, field in Labelling.model_fields.items()}
    assert found == {name: default.removesuffix(".0") for name, default in expected.items()}


@pytest.mark.long
def test_the_documents_build_a_site_without_broken_links(tmp_path):
    """A warning, including one about a link to a missing title, fails the build."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert 'href="configuration.html"' in (tmp_path / "reference/http.html").read_text()


def test_the_menu_of_the_site_lists_every_document():
    listed = re.findall(r"- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    beside = {"index.md", "changelog.md", "contributing.md", "security.md", "benchmarks.md", "package.md"}
    shelves = ("tutorials", "how-to", "reference", "explanation")
    assert sorted(listed) == sorted(
        beside | {f"{path.parent.name}/{path.name}" for each in shelves for path in (ROOT / "docs" / each).glob("*.md")}
    )
