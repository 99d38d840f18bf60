"""Solvers that make one step per example: perceptrons, gradient descent, random features, projections."""
