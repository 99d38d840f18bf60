"""Payments, some of them fraud: a model's configuration, costs of decisions, and a stream."""

import numpy as np

BODY = {"solver": "lasvm", "C": 1, "kernel": {"type": "rbf", "gamma": 1}, "features": {"type": "dense", "dim": 2}}
COSTS = {"fraud": {"ok": 50}, "ok": {"fraud": 10}, "ask": 2}


def stream(n, seed=0, share=0.3):
    """Return n payments X (n, 2) and their labels. share: probability of fraud."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < share
    X = rng.normal(size=(n, 2)) * 0.7
    X[:, 0] += 1.5 * fraud
    return X, np.where(fraud, "fraud", "ok").tolist()
