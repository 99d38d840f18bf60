"""How the solvers are compiled. Everything that overrides numba is in this package.

compiled.py   the options: no fast-math, without Python's lock, division as in C
forms.py      the function for Python and the function for compiled code are compiled apart: a third less to compile
handed.py     a tuple of arrays is one pointer, not hundreds of arguments: a fifth less to compile, and quicker calls
cache.py      the cache of compiled code, named by a hash of all sources; each file has a digest; a wheel may bring code
crew.py       processes that compile beside a server, which would otherwise keep the compiler's memory

warm.py, above this package, runs what must be compiled. ADR 51 gives the reasons, and what was tried and dropped.

These parts of numba are overridden:

- `Dispatcher`: a `Step` sends the type inference and the lowering of callers to its `Inner` form, which enters no code
  that Python could call (`get_call_template`, `get_overload`, `add_overload`).
- `CompilerBase`, `NativeLowering`, `JITCodeLibrary`: an `Inner` form is lowered to bitcode, and neither optimised nor
  emitted, because its callers do both.
- `NullCache`: replaces numba's cache. `CompileResult` says what is kept of a function, as for numba's own cache.
- `DataModel`, and by public decorators typing, unboxing and attributes, only for tuples that are `handed`.

For a new numba, raise its upper bound in pyproject.toml and run tests/solvers/jit. test_insides.py compares the source
of each overridden part with its recorded source and names the parts that changed. Read those, then record them again.
"""
