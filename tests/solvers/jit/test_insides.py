"""The parts of numba that solvers/jit overrides, and whether they are still as recorded.

After one has changed: read the change, adapt solvers/jit if need be, and record it:

    PYTHONPATH=. python tests/solvers/jit/test_insides.py
"""

import hashlib
import importlib
import inspect
import json
from pathlib import Path

import numba
from numba.core import callwrapper, codegen, compiler, dispatcher, typed_passes

from hinged.solvers import jit

RECORD = Path(__file__).with_name("insides.json")
ROOM = Path(jit.__file__).parent
RELIED_ON = {
    codegen.CodeLibrary: ["finalize", "add_linking_library"],
    codegen.CPUCodeLibrary: ["_finalize_dynamic_globals", "_ensure_finalized"],
    codegen.JITCodeLibrary: ["_finalize_specific"],
    compiler.CompileResult: ["_reduce", "_rebuild"],
    compiler.DefaultPassBuilder: ["define_nopython_pipeline"],
    dispatcher.Dispatcher: ["compile"],
    dispatcher._DispatcherBase: ["_compile_for_args"],
    typed_passes.BaseNativeLowering: ["run_pass"],
    callwrapper._ArgManager: ["add_arg"],
    callwrapper.PyCallWrapper: ["build_wrapper"],
}
"""Functions that call an override, or that an override calls, and that are not overridden themselves."""


def overridden():
    """Pairs of a numba class and a method of it that a class in solvers/jit overrides."""
    for file in ROOM.glob("*.py"):
        module = importlib.import_module(f"hinged.solvers.jit.{file.stem}")
        for own in vars(module).values():
            if isinstance(own, type) and own.__module__ == module.__name__:
                for name, part in vars(own).items():
                    base = next((base for base in own.__mro__[1:] if name in vars(base)), None)
                    if callable(part) and base is not None and base.__module__.startswith("numba."):
                        yield base, name


def insides():
    """A digest of each part's lines, without comments, by its name."""
    pairs = [*overridden(), *((base, name) for base, names in RELIED_ON.items() for name in names)]
    return {f"{base.__module__}.{base.__name__}.{name}": digest(getattr(base, name, None)) for base, name in pairs}


def digest(function):
    if function is None:
        return "gone"
    lines = [line.strip() for line in inspect.getsource(inspect.unwrap(function)).splitlines()]
    return hashlib.sha256("\n".join(line for line in lines if line and line[0] != "#").encode()).hexdigest()[:16]


def recorded():
    return json.loads(RECORD.read_text())


def test_the_overridden_parts_of_numba_are_as_recorded():
    now, before = insides(), recorded()["insides"]
    changed = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
    assert changed == [], f"numba {numba.__version__} is not {recorded()['numba']} here: see above"


def test_the_docstring_of_solvers_jit_names_what_is_overridden():
    kinds = {base.__name__.removeprefix("_").removeprefix("CPU").removeprefix("Base") for base, _ in overridden()}
    assert {kind for kind in kinds if kind.removesuffix("Base") not in jit.__doc__} == set()


def test_no_other_module_of_the_solvers_imports_numba_internals():
    solvers = ROOM.parent
    rooms = (ROOM, solvers / "core" / "simd")
    assert [
        file for file in solvers.rglob("*.py") if "numba.core" in file.read_text() and file.parent not in rooms
    ] == []


if __name__ == "__main__":
    found = {"numba": numba.__version__, "insides": dict(sorted(insides().items()))}
    RECORD.write_text(json.dumps(found, indent=1) + "\n")
