"""The parts that all solvers share: kernels, rows, points, sums in a fixed order, and the interface `Solver`."""
