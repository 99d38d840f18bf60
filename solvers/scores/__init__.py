"""Computations on decision values: probabilities, metrics, and the choice of the next example to label."""
