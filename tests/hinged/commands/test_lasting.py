"""A command reports success only after it has synced to disk. tests/faults/failing.c records the order of its system
calls.
"""

import ast
from pathlib import Path, PurePath

import pytest

from hinged.service.edge.keys import create_key, read_keys
from tests.faults.scene import failing_library
from tests.helpers.command import hinged
from tests.helpers.server import ROOT

OF_A_PATH = {"rename", "renames", "replace"}
OF_A_MODULE = {("os", "rename"), ("os", "renames"), ("os", "replace"), ("os", "link"), ("shutil", "move")}
PRODUCT = ("hinged", "service", "solvers", "docker")


def lost(calls, folder):
    """Return the files in `folder` that were not synced when a file was renamed, or when the command wrote its
    output.
    """
    unsynced, found = set(), []

    def below(path):
        return {other for other in unsynced if PurePath(path) in (PurePath(other), *PurePath(other).parents)}

    def folder_of(path):
        return str(PurePath(path).parent)

    for call, one, other in calls:
        match call:
            case "write":
                if one not in unsynced:
                    unsynced |= {one, folder_of(one)}
            case "mkdir":
                unsynced.add(folder_of(one))
            case "sync":
                unsynced.discard(one)
            case "rename":
                found += [f"{each} is not synced before {one} is renamed" for each in sorted(below(one))]
                unsynced = unsynced - below(one) | {folder_of(other)}
            case "said":
                found += [f"{each} is not synced before the output is written" for each in sorted(below(folder))]
    return found


@pytest.fixture
def faults(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    return {"LD_PRELOAD": str(failing_library(folder)), "FAULTS": str(folder)}


@pytest.fixture
def run(faults, tmp_path):
    """Run a command, and return its recorded system calls."""

    def run(*arguments, begin=("calls",), code=0, **environment):
        for fault in begin:
            Path(faults["FAULTS"], fault).write_text("")
        hinged(*arguments, code=code, env=environment | faults, cwd=tmp_path, process=True)
        calls = [line.split("\t") for line in Path(faults["FAULTS"], "calls").read_text().splitlines()]
        assert calls or code
        return calls

    return run


@pytest.mark.long
def test_a_created_or_revoked_key_survives_a_loss_of_power(run, tmp_path):
    file = tmp_path / "keys.json"
    for command in (["create", "ann", "--role", "reader", "--file", file], ["revoke", "ann", "--file", file]):
        calls = run("keys", *command)
        assert lost(calls, str(tmp_path)) == []
        assert [call for call, *_ in calls if call in ("rename", "said")][:2] == ["rename", "said"]


@pytest.mark.parametrize("name", ["kept", "kept.tar.gz"])
def test_a_finished_backup_survives_a_loss_of_power(run, real, client, name, tmp_path):
    if not client.models():
        client.create_model("m", kernel={"type": "linear"}, features={"type": "dense", "dim": 2})
    calls = run("backup", name, HINGED_URL=real.url)
    assert lost(calls, str(tmp_path)) == []
    assert [call for call, *_ in calls if call in ("rename", "said")][:2] == ["rename", "said"]


def test_revoking_a_key_fails_if_the_disk_cannot_sync(run, tmp_path):
    file = tmp_path / "keys.json"
    create_key(file, "ann", "reader")
    run("keys", "revoke", "ann", "--file", file, begin=("calls", "fsync"), code=1)
    assert [key.name for key in read_keys(file)] == ["ann"]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.long
def test_only_disk_py_renames_files_that_must_survive_a_loss_of_power():
    found = []
    for path in sorted(path for room in PRODUCT for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name, of = node.func.attr, ast.unparse(node.func.value)
                # replace(old, new) is a method of strings. A call with keywords is a method of a date or a dataclass.
                a_text = name == "replace" and (len(node.args) != 1 or node.keywords)
                if (of, name) in OF_A_MODULE or (name in OF_A_PATH and not a_text):
                    found.append(str(path.relative_to(ROOT)))
    # A file of the compile cache may be lost: solvers/jit/cache.py compiles a damaged file again.
    assert found == ["hinged/disk.py", "solvers/jit/cache.py"]
