"""Solvers that step once for each example: perceptrons, NORMA, Pegasos, random features, projections."""
