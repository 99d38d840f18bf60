"""Loops in LLVM's instructions: those that numba compiles too slowly, and that nearly all of a solver's time goes to.

vectors.py    what the loops share: a number or a vector of numbers (`Value`), `loop`, `elementwise`
lanes.py      sums, in an order that is written down
products.py   products of rows and points, whose sums stay in registers
sweep.py      gradients that are moved and searched in one pass

Add a loop only where a profile shows that numba leaves a third of a solver's time there, and measure it on a processor
with vectors of 512 bits and on another one. Whoever changes a loop has to know these rules:

- A result has the same bits on every processor. So no instruction has a fast-math flag, none is fused, and how wide a
  vector is (`VECTOR_BYTES`) never decides in which order numbers are added.
- Code of a wheel is made for narrower vectors than the processor may have. So Python gives arrays room for the widest
  vectors, and only compiled code reads `VECTOR_BYTES`.
- Nothing checks bounds. A loop's docstring says which arrays are contiguous and how long they are; callers see to it.
- Every load and store names the alignment of a number, not of a vector: a part of an array begins anywhere.

tests/solvers/core/simd/ compares each loop to the bit with a plain one, over random lengths, beginnings and types.
tests/solvers/test_bits.py runs every solver with the vectors of three kinds of processors and compares the states with
tests/solvers/digests.json. tests/test_install.py runs a wheel's narrower code. Where digests change, the loop is wrong.
"""
