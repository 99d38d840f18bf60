"""The configuration class of each solver: the shared parts, and the parameters that the solver declares."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field, create_model

from hinged.service.data.parts import Configuration
from hinged.solvers.catalogue import SOLVERS, Entry

UNNAMED = ("auto", "lasvm")
"""The solvers of a configuration that names none (configuration.py)."""


def _kind(name: str, entry: Entry) -> type[Configuration]:
    solver = Literal[name]  # type: ignore[valid-type]
    fields: dict[str, Any] = {"solver": (solver, name if name in UNNAMED else ...)}
    if entry.fixed.get("dtype") is np.float64:
        fields["precision"] = (Literal["float64"], "float64")
    for parameter in entry.parameters.values():
        said = Field(parameter.default, description=parameter.meaning)
        fields[parameter.name] = (parameter.annotation, said)
    title = "".join(part.capitalize() for part in name.replace("++", "-plus-plus").split("-"))
    return create_model(f"{title}Configuration", __base__=Configuration, __module__=__name__, **fields)


CONFIGURATION_OF = {name: _kind(name, entry) for name, entry in SOLVERS.items()}
SOLVER_NAMES = tuple(CONFIGURATION_OF)

WITHOUT_ANY: dict[str, Any] = {"calibration": "sigmoid"}
WITHOUT: dict[str, dict[str, Any]] = {
    name: later
    for name, entry in SOLVERS.items()
    if (later := {each.name: each.since.without for each in entry.parameters.values() if each.since is not None})
}
"""Values of parameters that are newer than some logs: they leave behaviour as it was before. For all solvers, and by
solver."""
