"""Loads estimators from files that `save` wrote, and from models that a server exported."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from hinged.frames import BadFrame, decode, kind_of, part
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.parameters import FLAG, check, integer, number, one_of
from hinged.solvers.core.states import StateReader
from hinged.solvers.estimators import baselines, sklearn
from hinged.solvers.estimators.base import PRECISIONS, Learner
from hinged.solvers.estimators.classifier import SolverClassifier
from hinged.solvers.estimators.estimator import SolverEstimator
from hinged.solvers.estimators.files import KIND, SCALE_PARTS, VERSION, kernel_of, renumbered
from hinged.solvers.estimators.oneclass import OneClassClassifier
from hinged.solvers.estimators.parameters import RULES
from hinged.solvers.estimators.scaling import DENSE, SPARSE, Scale

Array = np.ndarray[Any, Any]

CLASSIFIERS: dict[str, type[SolverClassifier]] = {
    name: each
    for module in (sklearn, baselines)
    for name, each in vars(module).items()
    if isinstance(each, type) and issubclass(each, SolverClassifier) and hasattr(each, "solver")
}
"""All classifiers of a solver, by name."""

ESTIMATORS: dict[str, type[SolverEstimator]] = {**CLASSIFIERS, OneClassClassifier.__name__: OneClassClassifier}
"""All estimators that a file may hold, by name."""

MACHINE = {
    "dim": integer(1, 2**31 - 1),
    "sparse": FLAG,
    "precision": one_of(*PRECISIONS),
    "seed": integer(0, 2**63 - 1),
    "learned": integer(0, 2**53 - 1),
    "fading": FLAG,
}
"""Rules of those parts of the machine that no other check covers."""

LABEL_TYPES = r"\|b1|\|O|[<>|][iu][1248]|[<>]f[248]|[<>]f16|[<>]U[0-9]{1,6}"
"""The types of labels that a fit may have, in NumPy's notation. A longer text type would fill the memory."""

EXPORT, MODEL, FORMAT = "export", "model", 3
"""The kinds of a server's frames, and the format of their snapshot."""


def load(data: bytes) -> SolverEstimator:
    """Return the estimator of a solver from the content of a file, or of a model that a server exported.

    Raise ValueError if the file is damaged, or has another kind or version. Raise it also if the model cannot be such
    an estimator, because its features are not numbers in columns or its labels have several types.
    """
    try:
        return _saved(data) if kind_of(data) == KIND else _exported(data)
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError, StopIteration) as error:
        raise BadFrame(f"the file does not fit together: {error!r}") from error


def _saved(data: bytes) -> SolverEstimator:
    facts, arrays = decode(data, KIND)
    if facts["version"] != VERSION:
        raise BadFrame(f"the file has version {facts['version']!r:.20}, this hinged reads {VERSION}")
    if facts["estimator"] not in ESTIMATORS:
        raise BadFrame(f"the file holds a {facts['estimator']!r:.80}, which is not an estimator of hinged.sklearn")
    parameters, machine = with_weights(facts["parameters"]), facts["machine"]
    estimator = ESTIMATORS[facts["estimator"]](**parameters)
    check(parameters, estimator.rules)
    check(machine["parameters"], RULES)  # the solver checks its own parameters
    learner = _learner(machine, machine["parameters"], part(arrays, "solver."))
    learner.hear(arrays["heard.scores"], arrays["heard.classes"])
    scale = machine["scale"]
    rows = None if scale is None else _scale(part(arrays, "scale."), scale["form"], machine["dim"], scale["rest"])
    labels = read_labels(machine["labels"], facts["labels_type"])
    estimator.restore(learner, labels, rows, is_sparse=machine["sparse"])
    if facts["feature_names"]:
        estimator.feature_names_in_ = read_feature_names(facts["feature_names"], machine["dim"])
    return estimator


def with_weights(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a file with class weights as a dictionary. A file has pairs, because labels are no
    texts.
    """
    pairs = parameters.get("class_weight")
    return {**parameters, "class_weight": dict(pairs)} if isinstance(pairs, list) else parameters


def read_labels(values: list[Any], kind: str) -> Array:
    """Return labels in the form of a fit: all different and of one type, each unchanged by that type."""
    if not (isinstance(kind, str) and re.fullmatch(LABEL_TYPES, kind)):
        raise BadFrame(f"labels_type must be booleans, numbers, texts or objects of NumPy, got {kind!r:.80}")
    labels: Array = np.array(values, np.dtype(kind))
    if len({type(label) for label in values}) != 1 or len(set(values)) != len(values) or labels.tolist() != values:
        raise BadFrame(f"labels must all be different and of the type {kind!r:.20}, got {values!r:.80}")
    check_classification_targets(labels)
    return labels


def read_feature_names(names: Any, dim: int) -> Array:
    """Return the names of the columns in the form of a fit."""
    if not isinstance(names, list) or len(names) != dim or not all(isinstance(name, str) for name in names):
        raise BadFrame(f"feature_names must be {dim} texts, got {names!r:.80}")
    return np.array(names, object)


def _exported(data: bytes) -> SolverClassifier:
    facts, arrays = decode(decode(data, EXPORT)[1]["snapshot"].tobytes(), MODEL)
    if facts["format"] != FORMAT:
        raise BadFrame(f"the model has format {facts['format']!r:.20}, this hinged reads {FORMAT}")
    taught, arrays = facts["learner"], part(arrays, "learner.")
    configuration, labels = taught["configuration"], taught["labels"]
    features, kernel = configuration["features"], dict(configuration["kernel"])
    if features["type"] not in ("dense", "sparse"):
        raise ValueError(f"a model of {features['type']} features has no estimator of its solver: solvers take numbers")
    if len({type(label) for label in labels}) != 1:
        raise ValueError(f"an estimator needs labels of a single type, the model has {labels!r:.200}")
    state = renumbered(part(arrays, "solver."), -1)
    estimator = _estimator_of(configuration, dict(zip(labels, state["weights"].tolist(), strict=True)))
    if isinstance(kernel.get("gamma"), str):
        kernel["gamma"] = taught["gamma"]
    machine = {
        "solver": configuration["solver"],
        "kernel": kernel,
        "dim": features["dim"],
        "precision": configuration["precision"],
        "seed": configuration["seed"],
        "learned": facts["learned"],
        "fading": configuration["half_life"] is not None,
    }
    rules = {"rules": configuration.get("rules", 1)} if configuration["solver"] == "auto" else {}
    learner = _learner(machine, estimator.solver_parameters() | rules, state)
    scale = None
    if features.get("scale") is not None:
        if not taught["scaling"]["begun"]:
            raise ValueError("the model has learned no examples from which scales could be found")
        own = part(arrays, "scaling.")
        scale = _scale(own, DENSE if features["type"] == "dense" else SPARSE, features["dim"], float(own["rest"][0]))
    estimator.restore(learner, np.array(labels), scale, is_sparse=features["type"] == "sparse")
    return estimator


def _estimator_of(configuration: dict[str, Any], weights: dict[Any, float]) -> SolverClassifier:
    """Return an estimator, not yet fitted, with a server's configuration."""
    solver: str = configuration["solver"]
    estimator = next(each for each in CLASSIFIERS.values() if each.solver == _family(solver))()
    kernel = configuration["kernel"]
    facts = {**configuration, **kernel, "kernel": kernel["type"], "scale": configuration["features"].get("scale")}
    facts["class_weight"] = {label: weight for label, weight in weights.items() if weight != 1.0} or None
    if facts.get("gamma") == "auto":  # in older models, with the same meaning as "scale"
        facts["gamma"] = "scale"
    if solver == "auto":
        facts["C"] = "auto"
    if solver.startswith("tracking-"):
        algorithm = solver.removeprefix("tracking-")
        facts["algorithm"] = int(algorithm) if algorithm.isdigit() else algorithm
    same = estimator.get_params(deep=False).keys() & facts.keys()
    chosen = {name: facts[name] for name in same if facts[name] is not None or name != "points_max"}
    check(chosen, estimator.rules)
    estimator.set_params(**chosen)
    return estimator


def _family(solver: str) -> str:
    """Return the name of the solver that selects the estimator; several solvers may share an estimator."""
    return "lasvm" if solver == "auto" else "tracking-2" if solver.startswith("tracking-") else solver


def _learner(machine: dict[str, Any], parameters: dict[str, Any], state: dict[str, Array]) -> Learner:
    """Return the machine of a state."""
    check(machine, MACHINE)
    own = {name: value for name, value in parameters.items() if name not in ("precision", "seed")}
    learner = Learner(
        machine["solver"],
        kernel_of(machine["kernel"]),
        machine["dim"],
        precision=machine["precision"],
        seed=machine["seed"],
        **own,
    )
    learner.solver.fading = machine["fading"]
    learner.solver.load(state)
    known = learner.solver.known()
    newest = int(np.where(known < NONE, -2 - known, known).max(initial=NONE))  # a merged point has -2 - its number
    if machine["learned"] <= newest:
        raise BadFrame(f"the machine must have learned more than {newest} examples, got {machine['learned']}")
    learner.numbered = machine["learned"]
    return learner


def _scale(arrays: dict[str, Array], form: str, dim: int, rest: float) -> Scale:
    check({"rest": rest}, {"rest": number(above=0.0)})
    read = StateReader(arrays)
    columns = read.take("columns", np.int64, (None,), 0, dim - 1)
    if form not in (DENSE, SPARSE) or (np.diff(columns) <= 0).any() or (form == DENSE and columns.size != dim):
        raise BadFrame(f"these are not the columns of {form} features of width {dim}")
    rest_parts = {name: read.take(name, np.float64, columns.shape) for name in SCALE_PARTS[1:]}
    if not (rest_parts["scale"] > 0).all():
        raise BadFrame("scales must be > 0")
    return Scale(form, dim, columns, **rest_parts, rest=float(rest))
