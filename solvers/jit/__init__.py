"""How the solvers are compiled. Everything that overrides numba is in this package.

compiled.py   the options: no fast-math, without Python's lock, division as in C
forms.py      the function for Python and the function for compiled code are compiled separately: a third less to
compile
handed.py     a tuple of arrays is passed as one pointer, not as hundreds of arguments: a fifth less to compile
cache.py      the cache of compiled code, named by a hash of all sources; each file has a digest; a wheel may include
code
crew.py       compiler processes, because a server that compiles would keep the compiler's memory

warm.py, above this package, runs the code that must be compiled. ADR 51 gives the reasons, and the rejected attempts.

These parts of numba are overridden:

- `Dispatcher`: a `Step` directs the type inference and the lowering of callers to its `Inner` form, which registers no
  code for Python (`get_call_template`, `get_overload`, `add_overload`).
- `CompilerBase`, `NativeLowering`, `JITCodeLibrary`: an `Inner` form is lowered to bitcode but neither optimised nor
  emitted, because its callers do both.
- `NullCache`: replaces numba's cache. `CompileResult` determines what is stored of a function, as in numba's own cache.
- `DataModel` and, through public decorators, typing, unboxing and attributes, only for tuples that are `handed`.

For a new numba version, raise the upper bound in pyproject.toml and run tests/solvers/jit. test_insides.py compares the
source of each overridden part with its recorded source and names the parts that changed. Read the changed parts, then
record them again.
"""
