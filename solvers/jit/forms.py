"""How a function is compiled that other compiled functions call.

numba makes three things of a function: what Python calls it by, machine code of it with all that it calls, and
bitcode to be linked into compiled callers, which is optimised there again: the code at the end of a chain of calls as
often as the chain is long. So a function has two forms here. What Python calls, a `Step`, is numba's own. What
compiled code calls is the `Inner` form: lowered, and neither optimised nor emitted, nor to be called from Python.
Each is compiled, and kept in the cache, when somebody needs it. The arithmetic is the same (compiled.py).
"""

from __future__ import annotations

from typing import Any, cast

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, compile_result
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.core.types import unliteral

from hinged.solvers.jit.cache import Cache


class AsItIs(JITCodeLibrary):
    """What LLVM's passes over a whole module have nothing to do for."""

    def _optimize_final_module(self) -> None:
        """Nothing."""


class Library(AsItIs):
    """LLVM's form of a function and of all that it calls, to be linked into callers, who optimise it."""

    def _finalize_final_module(self) -> None:
        """Nothing of it is executed."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, bytes]:
        """Its form in the cache: there is no object code."""
        self._ensure_finalized()
        return self.name, self._final_module.as_bitcode()

    @classmethod
    def read(cls, codegen: Any, form: tuple[str, bytes]) -> Library:
        """A library by its form in the cache."""
        name, bitcode = form
        library = cls(codegen, name)
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalize_final_module()
        return library


def place_environment(target: Any, fndesc: Any, env: Any) -> None:
    """Tell code where the Python objects of a function are, which it needs to print and to raise what is not constant.

    numba does so for what it emits. Of what only callers emit, the place is emitted by itself, and shared by them.
    """
    codegen = target.codegen()
    library = AsItIs(codegen, f"objects of {fndesc.env_name}")
    module = library.create_ir_module(library.name)
    target.declare_env_global(module, fndesc.env_name)
    library.add_ir_module(module)
    library.finalize()
    codegen.set_env(fndesc.env_name, env)


class _Key:
    """By which numba finds a function that is called, where there is none that Python could call."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Lowers into a library that is not executed."""

    _name = "lowering of what compiled code calls"

    def run_pass(self, state: Any) -> bool:
        state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        state.library.finalize()
        lowered = state["cr"]._replace(cfunc=_Key())
        state.targetctx.insert_user_function(lowered.cfunc, lowered.fndesc, [state.library])
        state["cr"] = lowered
        return True


class _Compiler(CompilerBase):
    """numba's own passes but for the lowering."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_Lowering if each is NativeLowering else each, why) for each, why in passes.passes]
        passes.finalize()
        return [passes]


def _rebuilt(target: Any, form: Any, fndesc: Any, env: Any, signature: Any, *_: Any) -> Any:
    """What compiled code calls, by what the cache has."""
    library = Library.read(target.codegen(), form)
    given = {"fndesc": fndesc, "environment": env, "signature": signature, "library": library, "entry_point": _Key()}
    return cast("Any", compile_result)(target_context=target, typing_context=target.typing_context, **given)


class Inner(CPUDispatcher):
    """A function for compiled code that calls it."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions=options | wrappers, pipeline_class=_Compiler)
        self._cache = Cache(function, "-inner", _rebuilt)

    def add_overload(self, cres: Any) -> None:
        """Know a variant: Python cannot call it."""
        place_environment(cres.target_context, cres.fndesc, cres.environment)
        self.overloads[tuple(cres.signature.args)] = cres


class Step(CPUDispatcher):
    """A function for Python; `inner` is what compiled code calls."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options | {"no_cfunc_wrapper": True})
        self._cache = Cache(function)
        self.inner = Inner(function, options)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """For the type inference of a caller. A constant is a number as any other: it makes no variant of its own."""
        plain = {name: unliteral(each) for name, each in kws.items()}
        return self.inner.get_call_template([unliteral(each) for each in args], plain)

    def get_overload(self, sig: Any) -> Any:
        """For the lowering of a caller."""
        return self.inner.get_overload(sig)
