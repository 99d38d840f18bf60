"""Turns the parameters of an estimator into parts of a server's configuration, and labels into a server's labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hinged.service.data.classes import Label


def parts_of(said: Any, features: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the parts of a configuration. A parameter that is None is left out, so that the server's rules decide.

    said: the estimator. features: the kind of features and its width. more: further parts.
    """
    kinds = {} if said.columns is None else {"columns": {name: {"type": kind} for name, kind in said.columns.items()}}
    kernel = "polynomial" if said.kernel == "poly" else said.kernel or (None if said.gamma is None else "rbf")
    gamma = {} if said.gamma is None else {"gamma": said.gamma}
    parts = {
        "solver": said.solver,
        "C": said.C,
        "kernel": None if kernel is None else {"type": kernel, **gamma},
        "features": {**features, **kinds},
        "half_life": None if said.half_life is None else {"examples": said.half_life},
        **more,
    }
    return {name: value for name, value in parts.items() if value is not None} | dict(said.configuration or {})


def label_of(label: Any) -> Label:
    """Return a label in the form that a server stores: a whole number becomes an integer. Raise ValueError."""
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, float) and label.is_integer():
        return int(label)
    if not isinstance(label, bool | int | str):
        raise ValueError(f"labels must be texts, whole numbers or booleans, got {label!r:.80}")  # noqa: TRY004
    return label


def labels_of(labels: Iterable[Any]) -> list[Label]:
    """Return labels in the form that a server stores. Raise ValueError."""
    return [label_of(label) for label in labels]
