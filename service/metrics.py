"""Prequential metrics: each example is predicted before it is learned, and that prediction counts."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WINDOW = 1000  # newest predictions in accuracy_window
UNKNOWN = -1  # no prediction: no class was known yet


class Prequential:
    """Accuracy over all predictions, and over the newest WINDOW."""

    def __init__(self) -> None:
        self.predicted = 0
        self.correct = 0
        self.window = np.zeros(WINDOW, np.uint8)

    def add(self, predictions: Array, classes: Array) -> None:
        """Count a batch of predicted and true class numbers; UNKNOWN predictions do not count."""
        hits = (predictions == classes)[predictions != UNKNOWN]
        places = (self.predicted + np.arange(hits.size)) % WINDOW
        self.window[places] = hits  # of two hits in one place, the later stays
        self.predicted += int(hits.size)
        self.correct += int(hits.sum())

    def figures(self) -> dict[str, float | int | None]:
        """The metrics as the server answers them."""
        shown = min(self.predicted, WINDOW)
        return {
            "predicted": self.predicted,
            "accuracy": self.correct / self.predicted if self.predicted else None,
            "accuracy_window": float(self.window[:shown].mean()) if shown else None,
        }

    def state(self) -> dict[str, Array]:
        """The metrics as arrays."""
        return {"counts": np.array([self.predicted, self.correct]), "window": self.window.copy()}

    def load(self, state: dict[str, Array]) -> None:
        """Take over a state of `state`."""
        self.predicted, self.correct = (int(v) for v in state["counts"])
        self.window = state["window"].copy()
