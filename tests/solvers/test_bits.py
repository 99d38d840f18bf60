"""The same bits on every processor: digests of every solver, for other compile targets and other library code.

Each processor type is imitated in its own process. numba compiles for it, and environment variables make NumPy, its
OpenBLAS and the C library ignore the features that it lacks. tests/solvers/digests.json was written once, on one
processor.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from tests.solvers.digests import digests

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def without(*names):
    """Return variables that make NumPy and the C library ignore any of these features that this processor has."""
    glibc = ",".join(f"-{name}" for name in ("AVX512F", "AVX2", "AVX2_Usable", "FMA", "FMA_Usable", "FMA4"))
    numpy = " ".join(name for name in __cpu_dispatch__ if name.startswith(names) and __cpu_features__[name])
    return {
        **({"NPY_DISABLE_CPU_FEATURES": numpy} if numpy else {}),
        **({"GLIBC_TUNABLES": f"glibc.cpu.hwcaps={glibc}"} if "X86_V3" in names else {}),
    }


PROCESSORS = {  # required features, features for numba, and variables for the libraries
    "generic": ([], "", {"OPENBLAS_CORETYPE": "Nehalem", **without("X86_V3", "X86_V4", "AVX")}),
    "x86-64-v3": (["avx2", "fma", "bmi2"], "", {"OPENBLAS_CORETYPE": "Haswell", **without("X86_V4", "AVX512")}),
    "x86-64-v4": (["avx512f", "avx512vl", "avx512bw", "avx512dq"], "+avx512f", {"OPENBLAS_CORETYPE": "SkylakeX"}),
}
HOST = get_host_cpu_features()
HERE_TOO = [name for name, (features, _, _) in PROCESSORS.items() if all(HOST.get(f, False) for f in features)]


def computing(processor):
    """Start and return a process that computes the digests as if on another processor."""
    _, features, libraries = PROCESSORS[processor]
    target = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features, **libraries}
    env = {**os.environ, "PYTHONPATH": str(ROOT), **target}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.solvers.digests"], env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def elsewhere():
    """Return the digests of each processor. The processes compile for minutes, so they run at the same time."""
    running = {processor: computing(processor) for processor in HERE_TOO}
    return {processor: (process.communicate()[0], process.returncode) for processor, process in running.items()}


def check(found):
    written = json.loads((HERE / "digests.json").read_text())
    assert found.keys() == written.keys()
    other = [name for name in found if found[name] != written[name]]
    assert not other, (
        f"other bits than in digests.json: {', '.join(other)}. If their arithmetic was changed, write the file again "
        "(tests/solvers/digests.py says how); if not, something depends on the processor or a library"
    )


@pytest.mark.long
@pytest.mark.timeout(3600)  # for compiling on a busy computer
@pytest.mark.parametrize("processor", HERE_TOO)
def test_every_solver_has_the_same_bits_on_another_processor(elsewhere, processor):
    printed, code = elsewhere[processor]
    assert code == 0
    check(json.loads(printed))


def test_every_solver_has_the_same_bits_here():
    check(digests())


DIFFERING = """
    exp exp2 expm1 log log2 log10 log1p logaddexp pow power float_power cbrt hypot erf gamma lgamma
    sin cos tan sinh cosh tanh asin acos atan atan2 arcsin arccos arctan arctan2 arcsinh arccosh arctanh sinc

    dot vdot inner matmul tensordot einsum linalg fft convolve correlate partition argpartition
"""
"""Functions of math and numpy whose libraries compute, add or sort differently on another processor."""

MAY = {
    ("kernels.py", "exp"),  # in inner_to_radial, which is never compiled
    ("turns.py", "exp"), ("turns.py", "log"), ("figures.py", "exp"),  # about processors alone, and in no state
    ("alarm.py", "log10"), ("agreement.py", "exp"), ("agreement.py", "log"),  # in figures, and in no state
    ("attributes.py", "@"),  # weights shown by a fitted estimator; nothing is computed from them
}  # fmt: skip
JUDGES = "examine"  # checks an imported file within tolerances, and stores no result


def nodes_of(tree):
    """Yield all nodes, except for functions that only check."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.FunctionDef) and child.name == JUDGES):
            yield from nodes_of(child)


def calls_that_differ(path):
    for node in nodes_of(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id="np" | "math"), attr=name) if name in DIFFERING.split():
                yield name
            case ast.BinOp(op=ast.MatMult()):
                yield "@"
            case ast.BinOp(op=ast.Pow(), right=power) if not (
                isinstance(power, ast.Constant) and isinstance(power.value, int)
            ) and not isinstance(power, ast.UnaryOp):
                yield "**"
            case ast.keyword(arg="fastmath"):
                yield "fastmath"
            case ast.Call(func=ast.Attribute(attr="argsort"), keywords=how) if not any(
                k.arg == "kind" and ast.literal_eval(k.value) == "stable" for k in how
            ):
                yield "argsort"
            case _:
                pass


@pytest.mark.long
def test_functions_that_differ_by_processor_are_never_called():
    sources = [path for room in ("solvers", "service") for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(sources) > 60
    found = {(path.name, name) for path in sources for name in calls_that_differ(path)} - MAY
    assert not found
