"""How functions that other compiled functions call are compiled.

numba makes three things of a function: an entry for Python, machine code of the function with everything that it calls,
and bitcode. The bitcode is linked into compiled callers and optimised there again. So the code at the end of a chain of
calls is compiled as many times as the chain is long. Here a function has two forms instead. Python calls a `Step`,
which is numba's own form. Compiled code calls the `Inner` form, which is lowered but neither optimised nor emitted, and
which Python cannot call. Each form is compiled and cached when it is first needed. The arithmetic is the same
(compiled.py).
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
    """A library that LLVM's module passes leave as it is."""

    def _optimize_final_module(self) -> None:
        """Do nothing."""


class Library(AsItIs):
    """LLVM's form of a function and all that it calls. It is linked into callers, which optimise it."""

    def _finalize_final_module(self) -> None:
        """Emit nothing, because none of the code is executed."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, bytes]:
        """Return the library's form for the cache: bitcode, because there is no object code."""
        self._ensure_finalized()
        return self.name, self._final_module.as_bitcode()

    @classmethod
    def read(cls, codegen: Any, form: tuple[str, bytes]) -> Library:
        """Return a library from its form in the cache."""
        name, bitcode = form
        library = cls(codegen, name)
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalize_final_module()
        return library


def place_environment(target: Any, fndesc: Any, env: Any) -> None:
    """Let compiled code find the Python objects of a function, which are needed to print and to raise exceptions.

    Code finds the objects through a global variable. numba emits this variable with the code of a function. For code
    that only callers emit, the variable is emitted here, separately, and the callers share it.
    """
    codegen = target.codegen()
    library = AsItIs(codegen, f"objects of {fndesc.env_name}")
    module = library.create_ir_module(library.name)
    target.declare_env_global(module, fndesc.env_name)
    library.add_ir_module(module)
    library.finalize()
    codegen.set_env(fndesc.env_name, env)


class _Key:
    """The key with which numba finds a called function that has no entry for Python."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """The pass that lowers a function into a library that is not executed."""

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
    """The compiler with numba's own passes, except for a different lowering."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_Lowering if each is NativeLowering else each, why) for each, why in passes.passes]
        passes.finalize()
        return [passes]


def _rebuilt(target: Any, form: Any, fndesc: Any, env: Any, signature: Any, *_: Any) -> Any:
    """Return the form for compiled callers, from the cache."""
    library = Library.read(target.codegen(), form)
    given = {"fndesc": fndesc, "environment": env, "signature": signature, "library": library, "entry_point": _Key()}
    return cast("Any", compile_result)(target_context=target, typing_context=target.typing_context, **given)


class Inner(CPUDispatcher):
    """The form of a function that compiled code calls."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions=options | wrappers, pipeline_class=_Compiler)
        self._cache = Cache(function, "-inner", _rebuilt)

    def add_overload(self, cres: Any) -> None:
        """Register a variant. Python cannot call it."""
        place_environment(cres.target_context, cres.fndesc, cres.environment)
        self.overloads[tuple(cres.signature.args)] = cres


class Step(CPUDispatcher):
    """The form of a function that Python calls; compiled code calls `inner`."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options | {"no_cfunc_wrapper": True})
        self._cache = Cache(function)
        self.inner = Inner(function, options)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the template for a caller's type inference.

        A constant has the type of any other number, so no variant is made.
        """
        plain = {name: unliteral(each) for name, each in kws.items()}
        return self.inner.get_call_template([unliteral(each) for each in args], plain)

    def get_overload(self, sig: Any) -> Any:
        """Return the overload for the lowering of a caller."""
        return self.inner.get_overload(sig)
