"""Solvers that take one step per example: perceptrons, gradient descent, random features, projections."""
