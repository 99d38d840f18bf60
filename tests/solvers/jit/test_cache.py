"""A compile cache that is damaged or cannot be written: real files, real limits."""

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from hinged.solvers.jit.cache import SUFFIX
from tests.helpers import forked_programs

ROOT = Path(__file__).parents[3]

RUN = """
import sys
from hinged.solvers.jit.compiled import compiled

if "full" in sys.argv:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # as on a full disk, a write fails

@compiled
def double(x):
    return 2 * x

@compiled
def twice(x):
    return double(x) + double(x)

assert (twice(3), twice(1.5)) == (12, 6.0)
print(sum(twice.stats.cache_hits.values()), len(double.inner.overloads))
"""
KEPT, COMPILED = "2 0", "0 2"
COLLIDING = """
import sys
from hinged.solvers.jit import cache
from hinged.solvers.jit.compiled import compiled

cache._digest, digest = lambda data: b"same name" if data[:2] == b"('" else digest(data), cache._digest

@compiled
def double(x):
    return 2 * x

for x in map(eval, sys.argv[1:]):
    assert type(double(x)) is type(x)
print(sum(double.stats.cache_hits.values()))
"""
"""This gives all variants of a function one file name, as if their digests were equal."""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(RUN)
    return path


def run(program, cache, *how, **environment):
    """Return how many functions a process found in a cache, and its other output."""
    env = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)} | environment
    done = forked_programs.run([program, *how], env, ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


@pytest.fixture(scope="module")
def filled(program, tmp_path_factory):
    cache = tmp_path_factory.mktemp("filled") / "cache"
    assert run(program, cache) == (COMPILED, "")
    assert run(program, cache) == (KEPT, "")
    return cache


@pytest.fixture
def cache(filled, tmp_path):
    return shutil.copytree(filled, tmp_path / "cache")


def code(cache):
    found = sorted(cache.rglob(f"*{SUFFIX}"))
    assert len(found) == 4
    return found


def emptied(_content, _rng):
    return b""


def cut(content, rng):
    return content[: rng.randrange(len(content))]


def flipped(content, rng):
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def garbage(content, rng):
    return rng.randbytes(len(content))


def as_numba_writes_it(content, _rng):
    return content[16:]


@pytest.mark.long
@pytest.mark.parametrize("damage", [emptied, cut, flipped, garbage, as_numba_writes_it])
def test_damaged_code_is_compiled_again_and_replaced(program, cache, damage):
    rng = random.Random(damage.__name__)
    for file in code(cache):
        file.write_bytes(damage(file.read_bytes(), rng))
    assert run(program, cache) == (COMPILED, "")
    assert run(program, cache) == (KEPT, "")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_any_files_may_be_damaged(program, cache, seed):
    rng = random.Random(seed)
    for file in code(cache):
        damage = rng.choice([None, emptied, cut, flipped, garbage])
        if damage is not None:
            file.write_bytes(damage(file.read_bytes(), rng))
    run(program, cache)
    assert run(program, cache) == (KEPT, "")


@pytest.mark.long
def test_files_that_cannot_be_read_are_skipped(program, cache):
    files = code(cache)
    for file in files:
        file.unlink()
        file.mkdir()
    found, said = run(program, cache)
    assert found == COMPILED
    assert said.startswith("compiled code cannot be kept, and each start compiles it again: ")
    assert [*filter(Path.is_file, cache.rglob("*"))] == []  # files that could not be written leave no trace
    for file in files:
        file.rmdir()
    assert run(program, cache) == (COMPILED, "")
    assert run(program, cache) == (KEPT, "")


@pytest.mark.long
def test_code_for_other_types_is_never_used_even_under_the_same_name(tmp_path):
    (tmp_path / "colliding.py").write_text(COLLIDING)
    for x, hits in (("1", 0), ("1", 1), ("1.5", 0), ("1.5", 1), ("1", 0)):
        assert run(tmp_path / "colliding.py", tmp_path / "cache", x) == (str(hits), "")


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_if_nothing_can_be_written_each_process_compiles_and_says_so_once(program, tmp_path):
    for _ in range(2):
        found, said = run(program, tmp_path / "cache", "full")
        assert found == COMPILED
        assert said.startswith("compiled code cannot be kept, and each start compiles it again: ")
        assert "\n" not in said


def test_if_no_folder_can_be_found_each_process_compiles_and_says_so_once(program, tmp_path):
    for name in ("cache", "__pycache__", "home"):
        (tmp_path / name).write_text("a file where a folder would be")
    shutil.copy(program, tmp_path / "program.py")
    places = {
        "XDG_CACHE_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "home"),
    }
    found, said = run(tmp_path / "program.py", tmp_path / "cache", **places)
    assert found == COMPILED
    assert said.startswith("compiled code cannot be kept, and each start compiles it again: ")
    assert "\n" not in said
