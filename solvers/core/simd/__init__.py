"""Loops written in LLVM IR, because solvers spend nearly all their time in them and numba's loops are too slow.

vectors.py    the parts the loops share: a number or a vector of numbers (`Value`), `loop`, `elementwise`
lanes.py      sums in a documented order
products.py   products of rows and points, whose sums stay in registers
sweep.py      gradients moved and searched in one pass

Add a loop only where a profile shows that numba wastes a third of a solver's time there. Measure it on a processor with
vectors of 512 bits and on a processor without. To change a loop, keep these rules:

- A result has the same bits on every processor. So no instruction has a fast-math flag, none is fused, and the width of
  a vector (`VECTOR_BYTES`) never decides in which order numbers are added.
- A wheel's code may be compiled for narrower vectors than the processor has. So Python gives arrays room for the widest
  vectors, and only compiled code reads `VECTOR_BYTES`.
- Nothing checks bounds. A loop's docstring says which arrays are contiguous and how long they are; callers ensure it.
- Every load and store names the alignment of a number, not of a vector: a part of an array may begin anywhere.

tests/solvers/core/simd/ compares each loop bit for bit with a plain loop, over random lengths, beginnings and types.
tests/solvers/test_bits.py runs every solver with the vectors of three kinds of processors and compares the states with
tests/solvers/digests.json. tests/test_install.py runs a wheel's narrower code. If digests change, the loop is wrong.
"""
