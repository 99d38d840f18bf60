"""What all solvers stand on: kernels, rows of examples, points, sums of a fixed order, and what a solver is."""
