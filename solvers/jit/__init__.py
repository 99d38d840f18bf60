"""How the solvers are compiled. All that overrides numba is in this room.

compiled.py   with which options: no fast-math, without Python's lock, division as in C
forms.py      what Python calls and what compiled code calls are compiled apart: a third less to compile
handed.py     a tuple of arrays is one pointer, not hundreds of arguments: a fifth less to compile, and quicker calls
cache.py      where compiled code lies: by a hash of all sources, each file behind a digest; a wheel may bring it
crew.py       processes that compile beside a server, which would keep the compiler's memory

What is run so that it is compiled stands above this room, in warm.py. ADR 51 says why, and what was tried and left.

What of numba is overridden:

- `Dispatcher`: a `Step` sends the type inference and the lowering of callers to its `Inner` form, which enters no code
  that Python could call (`get_call_template`, `get_overload`, `add_overload`).
- `CompilerBase`, `NativeLowering`, `JITCodeLibrary`: an `Inner` form is lowered to bitcode, and neither optimised nor
  emitted, for its callers do both.
- `NullCache`: numba's cache is replaced. What is kept of a function `CompileResult` says, as for numba's own cache.
- `DataModel`, and by public decorators typing, unboxing and attributes, for tuples that are `handed` alone.

When a new numba comes, raise its upper bound in pyproject.toml and run tests/solvers/jit. test_insides.py compares the
source of each inside with what it was, and names those that have changed: read these, and record them anew.
"""
