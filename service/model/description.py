"""The description of a model: the answer of `GET /models/{model}`."""

from __future__ import annotations

from typing import Any

from hinged.service.data.configuration import shown_configuration
from hinged.service.model.state import State


def described(model: State, now_ms: int, *, full: bool = False) -> dict[str, Any]:
    """Return the figures of a model. now_ms: the time for which leases are open; the newest event's if that is later.

    full: with every default of its configuration.
    """
    certificate = model.solver.certificate()
    figures = {
        "model": model.name,
        "configuration": shown_configuration(model.configuration, full=full),
        "position": model.position,
        "examples": model.learned,
        "classes": list(model.labels.labels),
        "support_vectors": certificate["support_vectors"],
        "points": certificate["points"],
        "duality_gap": certificate["gap"],
        "certificate": certificate,
        "metrics": model.metrics.figures(model.labels.labels),
        "pool": model.pool.figures(max(now_ms, model.at_ms)),
        "pending": len(model.pending),
        "memory_bytes": model.memory_bytes(),
    }
    if model.set_aside:
        figures["set_aside"] = [{"position": at, "kind": kind} for at, kind in model.set_aside]
    encoder = model.learner.warmup.encoder
    if encoder is not None:
        warnings = encoder.warnings(model.learned)
        told = {"warnings": warnings} if warnings else {}
        figures["features"] = {**encoder.figures(), "gamma": model.learner.gamma_used, **told}
    arms = model.solver.arms_in_figures()
    if arms is not None:
        figures["arms"] = arms
    discarded = model.solver.discarded
    if discarded is not None:
        figures["discards"] = {
            name: {"wrong": wrong, "sure": sure}
            for name, (wrong, sure) in zip(model.labels.names, discarded.tolist(), strict=True)
        }
    return figures
