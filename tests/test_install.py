"""What an installation puts where: one name, whatever else is called service or solvers."""

import os
import subprocess
import sys
import zipfile

import pytest
from running import ROOT


def run(program, folder, env):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_a_wheel_holds_one_package_with_all_its_modules(wheel):
    names = set(wheel.namelist())
    assert {name.split("/")[0].split("-")[0] for name in names} == {"hinged"}
    for top in "service", "solvers":
        assert {f"hinged/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / top).rglob("*.py")} <= names
    static = ROOT / "service" / "page" / "static"
    files = {path.relative_to(ROOT).as_posix() for path in static.rglob("*") if path.is_file()}
    assert len(files) > 20
    assert {f"hinged/{file}" for file in files} <= names
    assert "hinged/py.typed" in names


def test_folders_of_the_same_names_are_in_nobodys_way(wheel, tmp_path):
    wheel.extractall(tmp_path / "site")
    for name in "service", "solvers":
        (tmp_path / "mine" / name).mkdir(parents=True)
        (tmp_path / "mine" / name / "__init__.py").write_text("raise ImportError('this is somebody else')")
    program = "import hinged.service.app, hinged.sklearn; print(hinged.__file__)"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = run(program, tmp_path / "mine", env)
    assert done.stdout.strip() == str(tmp_path / "site" / "hinged" / "__init__.py"), done.stderr


@pytest.mark.parametrize("name", ["service", "solvers"])
def test_in_a_checkout_modules_have_no_second_name(name):
    done = run(f"import {name}", ROOT, os.environ)
    assert f"ImportError: this folder is imported as hinged.{name}" in done.stderr
