"""Turn the file of a fitted estimator (solvers/estimators/files.py) into a model with the same machine and
a new log.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, StrictBool, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from hinged.frames import BadFrame, decode, part
from hinged.service.data.classes import Label, score_name
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.features.scaling import Scaling
from hinged.service.data.parameters import CONFIGURATION_OF
from hinged.service.data.parts import POINTS
from hinged.service.data.problems import first_problem
from hinged.service.errors import Invalid
from hinged.service.model.model import Model
from hinged.service.model.schema import STRICT, Count
from hinged.service.settings import Settings
from hinged.solvers.estimators.files import KIND, VERSION, renumbered
from hinged.solvers.warm import warm_up

Array = np.ndarray[Any, Any]

NO_ANSWERS: dict[str, Array] = {
    "contents": np.zeros((0, 16), np.uint8),
    "labels": np.zeros(0, np.int32),
    "predictions": np.zeros(0, np.int32),
    "scores": np.zeros(0),
}


@with_config(STRICT)
class ScaleFacts(TypedDict):
    """The scalar values that describe the scale of the columns. The file's arrays contain the other values."""

    form: Literal["dense", "sparse"]
    rest: float


@with_config(STRICT)
class MachineFacts(TypedDict):
    """The description of the machine in a file."""

    solver: str
    kernel: dict[str, Any]
    dim: int
    sparse: StrictBool
    precision: str
    parameters: dict[str, Any]
    seed: int
    labels: list[StrictBool | int | float | str]
    learned: Annotated[Count, Field(gt=0)]
    fading: StrictBool
    scale: ScaleFacts | None


MACHINE = TypeAdapter(MachineFacts)


def snapshot_of(data: bytes, settings: Settings, sizes: dict[str, int]) -> bytes:
    """Return the snapshot of the model that an estimator's file describes.

    Raise BadFrame, ValueError or Invalid if the file is invalid. sizes: as in Model.begin.
    """
    facts, arrays = decode(data, KIND)
    if facts.get("version") != VERSION:
        raise BadFrame(f"the file has version {facts.get('version')!r:.20}, this server reads {VERSION}")
    try:
        machine = MACHINE.validate_python(facts.get("machine"))
    except ValidationError as error:
        raise BadFrame(f"the file's machine: {first_problem(error, MACHINE)}") from None
    if machine["fading"]:
        raise Invalid("the estimator was a model with a half-life: import the file that the server exported")
    state = renumbered(part(arrays, "solver."), 1)
    labels = [_label(label) for label in machine["labels"]]
    weights = state.get("weights", np.zeros(0)).tolist()
    if len(weights) != len(labels):
        raise BadFrame(f"{len(labels)} labels do not fit {len(weights)} weights")
    body = _configuration(machine, dict(zip(map(score_name, labels), weights, strict=True)), settings)
    configuration = parse_configuration(json.dumps(body), settings)
    if isinstance(configuration.gamma, str):
        raise BadFrame("the file's kernel must have a number for gamma")
    warm_up(configuration.solver, configuration.dtype)
    model = Model("estimator", configuration, **sizes)
    for label in labels:
        model.learner.add_class(label)
    encoder = model.learner.warmup.encoder
    if isinstance(encoder, Scaling) and machine["scale"] is not None:
        rest = {"rest": np.array([machine["scale"]["rest"]]), "spread": np.zeros(3)}
        encoder.load({"warming": False, "begun": True, "observed": {}}, part(arrays, "scale.") | rest)
    model.solver.load(state)
    model.position, model.learned = 1, machine["learned"]
    model.learner.learned = model.learned
    model.answers.load({"newest": model.learned, "ids": []}, NO_ANSWERS)
    return model.snapshot()


def _configuration(machine: MachineFacts, weights: dict[str, float], settings: Settings) -> dict[str, Any]:
    """Return the model's configuration as a request body, without parameters that the server's solvers do not have."""
    if machine["solver"] not in CONFIGURATION_OF:
        raise BadFrame(f"the file's solver must be one of {', '.join(CONFIGURATION_OF)}, got {machine['solver']!r:.80}")
    known = CONFIGURATION_OF[machine["solver"]].model_fields
    facts = {name: value for name, value in machine["parameters"].items() if name in known}
    points_max = facts.get("points_max", POINTS)
    if isinstance(points_max, int):
        facts["points_max"] = min(points_max, settings.points_max)
    return {
        **facts,
        "solver": machine["solver"],
        "kernel": machine["kernel"],
        "features": {
            "type": "sparse" if machine["sparse"] else "dense",
            "dim": machine["dim"],
            "scale": None if machine["scale"] is None else "auto",
        },
        "class_weight": {name: weight for name, weight in weights.items() if weight != 1.0} or None,
        "precision": machine["precision"],
        "seed": machine["seed"],
    }


def _label(label: float | str) -> Label:
    """Return the label in the form that the server stores: a whole number becomes an integer."""
    if isinstance(label, float):
        if not label.is_integer():
            raise Invalid(f"a model's labels are strings, integers and booleans, got {label!r} from the estimator")
        return int(label)
    return label
