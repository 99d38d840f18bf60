"""An installation contains one package, `hinged`, and only the libraries of the extras that the user chose."""

import email
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import hinged
from hinged.solvers.jit.cache import KIND
from tests.helpers import forked_programs
from tests.helpers.server import PATIENCE_S, ROOT

pytestmark = pytest.mark.long


def run(program, folder, env):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def wheel(built):
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def bare(built, tmp_path_factory):
    """Returns a function that runs a program in a fresh environment with the wheel and no extra.

    The current folder contains the folders service and solvers of another project.
    """
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", programs / "python"]
    subprocess.run([*pip, "install", built], check=True, timeout=PATIENCE_S)
    for name in "service", "solvers":
        (folder / "mine" / name).mkdir(parents=True)
        (folder / "mine" / name / "__init__.py").write_text("raise ImportError('this is another project')")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HINGED_", "PYTHON"))}

    def run(program, *arguments):
        command = [programs / program, *arguments]
        return subprocess.run(
            command, cwd=folder / "mine", env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    return run


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


MANY_ROWS = """
import numpy as np

from hinged.solvers.core.ahead import look_ahead, nothing_ahead
from hinged.solvers.core.decision import ExpansionView
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.points import points_from_rows
from hinged.solvers.core.rows import rows_from_dense

random, kernel, dim, n, m = np.random.default_rng(0), make_kernel("rbf", 0.05), 50, 300, 24
points = points_from_rows(rows_from_dense(random.standard_normal((n, dim)), kernel, dim), dim)
rows = rows_from_dense(random.standard_normal((m, dim)), kernel, dim)

view = ExpansionView(kernel, points, n, random.standard_normal((2, n)), np.ones(2), np.zeros(2), dim)
alone = np.concatenate([view.decision(rows.part(r, r + 1)) for r in range(m)])
assert np.array_equal(view.decision(rows), alone)

batch = rows.labelled(np.zeros(m, np.int64), np.arange(m))
found = look_ahead(nothing_ahead(np.float32), kernel, points, batch, 0, 20).rows[:m, :n].astype(np.float64)
assert np.allclose(found @ view.alpha.T + view.b, alone, atol=1e-5)
print("equal")
"""
"""A program that checks the code for many rows at once. This code uses vectors of the target processor's width."""


@pytest.fixture(scope="module")
def with_kernels(tmp_path_factory):
    """The packages of an environment that has a wheel with the kernels of `fogd`, the solver that compiles fastest."""
    if not KIND:
        pytest.skip("a wheel with kernels is for x86-64 or Arm")
    folder = tmp_path_factory.mktemp("kernels")
    processor = {"NUMBA_CPU_NAME": KIND, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = run("from hinged.solvers.warm import warm_up; warm_up('fogd')", ROOT, os.environ | processor)
    assert done.returncode == 0, done.stderr
    done = run(MANY_ROWS, ROOT, os.environ | processor)
    assert done.stdout == "equal\n", done.stderr
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, env=os.environ | {"HINGED_COMPILED": folder / "cache"}
    )
    (file,) = folder.glob("*.whl")
    assert re.fullmatch(r"hinged-.*-cp3\d+-cp3\d+t?-.*(x86_64|amd64|aarch64|arm64)\.whl", file.name)
    with zipfile.ZipFile(file) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def loaded(site, cache, **environment):
    """Return whether an installation loads the solver's kernels without compiling. cache: the user's cache folder."""
    program = "import hinged; from hinged.solvers.warm import load; print(load('fogd'), hinged.__file__)"
    env = os.environ | {"PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(cache)} | environment
    done = forked_programs.run(["-c", program], env, cache.parent)
    there, _, file = done.stdout.strip().partition(" ")
    assert file == str(site / "hinged" / "__init__.py"), done.stderr
    return there == "True"


def test_the_kernels_of_a_wheel_serve_its_sources_on_its_kind_of_processor_only(with_kernels, tmp_path):
    assert loaded(with_kernels, tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.code"))
    assert not loaded(with_kernels, tmp_path / "cache", NUMBA_CPU_NAME="another")
    shutil.copytree(with_kernels, tmp_path / "site")
    with (tmp_path / "site" / "hinged" / "solvers" / "core" / "points.py").open("a") as source:
        source.write("# edited\n")
    assert not loaded(tmp_path / "site", tmp_path / "cache")


def test_the_kernels_of_a_wheel_compute_many_rows_on_a_processor_with_wider_vectors(with_kernels, tmp_path):
    env = os.environ | {"PYTHONPATH": str(with_kernels), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = run(MANY_ROWS, tmp_path, env)
    assert done.stdout == "equal\n", done.stderr
    assert not list((tmp_path / "cache").rglob("*.code"))  # nothing was compiled, so the wheel's kernels ran


def test_a_users_folders_named_service_and_solvers_do_not_disturb_an_installation(wheel, tmp_path):
    wheel.extractall(tmp_path / "site")
    for name in "service", "solvers":
        (tmp_path / "mine" / name).mkdir(parents=True)
        (tmp_path / "mine" / name / "__init__.py").write_text("raise ImportError('this is another project')")
    program = "import hinged.service.app, hinged.sklearn; print(hinged.__file__)"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = run(program, tmp_path / "mine", env)
    assert done.stdout.strip() == str(tmp_path / "site" / "hinged" / "__init__.py"), done.stderr


def test_the_metadata_name_author_and_licence_and_have_no_relative_links(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Version"] == hinged.__version__
    assert metadata["License-Expression"].startswith("BSD-3-Clause")
    assert metadata["Author"] == "the hinged authors"
    assert "LICENSE" in metadata.get_all("License-File")
    assert "service/page/static/vendor/uplot.LICENSE" in "".join(metadata.get_all("License-File"))
    assert {"all", "redis", "server", "sklearn", "solvers"} <= set(metadata.get_all("Provides-Extra"))
    assert not re.search(r"\]\((?!https://)", metadata.get_payload())


def test_an_installation_without_extras_has_client_and_command_line(bare):
    done = bare("hinged", "--help")
    assert done.stdout.startswith("Usage: hinged"), done.stderr
    assert bare("hinged", "--version").stdout == f"hinged {hinged.__version__}\n"
    done = bare("python", "-c", "import hinged; hinged.Client().close(); print(hinged.__version__)")
    assert done.stdout == f"{hinged.__version__}\n", done.stderr
    done = bare("python", "-c", "import numpy")
    assert "No module named 'numpy'" in done.stderr
    refused = bare("hinged", "models", "--url", "http://127.0.0.1:9")
    assert refused.stderr.startswith("hinged: no answer from http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("arguments", "who", "extra"),
    [
        (["serve"], "hinged serve", "server"),
        (["keys", "list", "--file", "keys.json"], "hinged keys", "server"),
        (["demo"], "hinged demo", "demo"),
    ],
)
def test_a_command_without_its_extra_names_the_extra_in_one_line(bare, arguments, who, extra):
    done = bare("hinged", *arguments)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(rf'{who} needs the package \w+, which is not installed: pip install "hinged\[{extra}\]"', line)


@pytest.mark.parametrize("library", ["sklearn", "river"])
def test_estimators_without_their_library_name_the_extra_that_brings_it(bare, library):
    done = bare("python", "-c", f"import hinged.{library}")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"hinged.extras.Lacking: hinged.{library} needs the package ")
    assert last.endswith(f'pip install "hinged[{library}]"')


def test_a_reader_of_files_without_its_library_names_the_extra(bare, tmp_path):
    file = tmp_path / "a.npz"
    file.write_bytes(b"")
    done = bare("hinged", "replay", file)
    assert done.stderr == ('a .npz file needs the package numpy, which is not installed: pip install "hinged[files]"\n')


def test_a_client_without_numpy_names_the_extra_for_batches_of_rows(bare):
    done = bare("python", "-c", "import hinged; hinged.Client().learn_rows('m', [[1.0]], ['a'])")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("hinged.extras.Lacking: a batch of rows needs the package numpy, ")
    assert last.endswith('pip install "hinged[files]"')


@pytest.mark.parametrize("name", ["service", "solvers"])
def test_a_checkout_refuses_to_import_a_folder_without_the_prefix_hinged(name):
    done = run(f"import {name}", ROOT, os.environ)
    assert f"ImportError: this folder is imported as hinged.{name}" in done.stderr
