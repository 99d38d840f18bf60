"""Writes a fitted estimator as an ONNX model: scale, kernel with the support vectors, decision values and label.

The model has plain operators in double precision. The operator SVMClassifier does not fit: it computes in single
precision, and decides between several classes by votes of pairs, where an estimator compares decision values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hinged.extras import needed
from hinged.local.classifier import HingedClassifier
from hinged.solvers.core.families import LAPLACIAN, LINEAR, POLYNOMIAL
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.estimators import loading
from hinged.solvers.estimators.attributes import DecisionParts
from hinged.solvers.estimators.classifier import SolverClassifier
from hinged.solvers.estimators.scaling import BENT_FROM, CLIP, PLAIN, Scale

if TYPE_CHECKING:
    from onnx import ModelProto

Array = np.ndarray[Any, Any]

OPSET, IR_VERSION = 17, 8
"""Versions of the operators and of the file's format, both from 2022. A newer version excludes older programs."""
INPUT = "X"
BYTES_MAX = 2**31 - 2**20
"""Maximum number of bytes of the support vectors. A file has less than 2 GiB, because protobuf allows no more."""


def to_onnx(estimator: SolverClassifier | HingedClassifier) -> ModelProto:
    """Convert a fitted estimator to an ONNX model.

    Parameters
    ----------
    estimator : estimator of hinged.sklearn
        A fitted estimator whose features are numbers.

    Returns
    -------
    onnx.ModelProto
        A model with the input ``X``, float64 of shape (n, n_features), and two outputs: ``label`` of shape (n,), and
        ``decision``, float64 of shape (n, K). K is 1 for two classes, else the number of classes. The scale of the
        columns is a part of the model.

    Raises
    ------
    ValueError
        The estimator cannot be exported: it has named features or texts, a single class, or no points.
    Lacking
        The package onnx is not installed.

    See Also
    --------
    LASVMClassifier.save : Writes a file that hinged reads, with which a machine continues to learn.

    Notes
    -----
    The decision values equal the values of `decision_function` to the precision in which the machine computes.

    Examples
    --------
    >>> from hinged.sklearn import LASVMClassifier, to_onnx
    >>> machine = LASVMClassifier(kernel="linear").fit([[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"])
    >>> [output.name for output in to_onnx(machine).graph.output]
    ['label', 'decision']
    """
    with needed("onnx", "to_onnx"):
        from onnx import checker  # noqa: PLC0415  only an export needs it

    classes, parts = _parts_of(estimator)
    columns = len(parts.expansions[0].bias)
    graph = Graph()
    x = _scaled(graph, parts.scale)
    if parts.dtype == np.float32:  # the machine rounds x, too
        x = graph.cast(graph.cast(x, np.float32), np.float64)
    total: Any = np.sum([each.bias for each in parts.expansions], axis=0, dtype=np.float64)
    for each in parts.expansions:
        values = _kernel_values(graph, x, each.points.toarray().astype(np.float64), each.kernel)
        total = graph.add("Add", graph.add("MatMul", values, each.coefficients.T.astype(np.float64)), total)
    decision = graph.add("Identity", total, output="decision")
    if columns == 1:
        positive = graph.add("Greater", decision, np.zeros(1))
        number = graph.cast(graph.add("Squeeze", positive, np.array([1])), np.int64)
    else:
        number = graph.add("ArgMax", decision, axis=1, keepdims=0)
    graph.add("Gather", _labels_of(classes), number, output="label")
    model = graph.model(parts.expansions[0].points.shape[1], columns)
    checker.check_model(model)
    return model


def _parts_of(estimator: Any) -> tuple[Array, DecisionParts]:
    """Return the classes, and what the decision values are computed from. Raise ValueError if ONNX cannot have it."""
    if not isinstance(estimator, SolverClassifier | HingedClassifier):
        raise TypeError(f"to_onnx exports an estimator of hinged.sklearn, got {type(estimator).__name__}")
    check_is_fitted(estimator)
    machine = _machine_of(estimator) if isinstance(estimator, HingedClassifier) else estimator
    classes = estimator.classes_
    if len(classes) < 2 or len(machine.classes_) != len(classes):
        raise ValueError(f"to_onnx exports machines of at least two classes with examples, got {machine.classes_}")
    try:
        parts = machine.decision_parts()
    except AttributeError as error:
        raise ValueError(f"to_onnx exports support vectors: {error}") from error
    shapes = [each.points.shape for each in parts.expansions]
    if sum(8 * rows * dim for rows, dim in shapes) > BYTES_MAX:
        raise ValueError(f"support vectors of {shapes} float64 exceed the {BYTES_MAX} bytes of an ONNX file")
    return classes, _in_order(parts, machine.classes_.tolist(), classes.tolist())


def _machine_of(estimator: HingedClassifier) -> SolverClassifier:
    """Return the estimator of a solver that decides as this model does."""
    try:
        return loading.load(estimator.to_model_file())
    except ValueError as error:
        raise ValueError(f"to_onnx cannot export this model: {error}") from error


def _in_order(parts: DecisionParts, labels: list[Any], classes: list[Any]) -> DecisionParts:
    """Return the parts with the columns of these labels in the order of the classes."""
    order = [labels.index(label) for label in classes]
    if len(parts.expansions[0].bias) == 1:
        sign, order = 1.0 if order == [0, 1] else -1.0, [0]
    else:
        sign = 1.0
    found = [
        each._replace(coefficients=sign * each.coefficients[order], bias=sign * each.bias[order])
        for each in parts.expansions
    ]
    return parts._replace(expansions=found)


def _labels_of(classes: Array) -> Array:
    """Return the labels in a type that ONNX has."""
    labels = classes.tolist()
    if len({type(label) for label in labels}) != 1 or not isinstance(labels[0], bool | int | float | str):
        raise ValueError(f"to_onnx exports labels that are all texts, numbers or booleans, got {labels!r:.200}")
    if isinstance(labels[0], str):
        return np.array(labels, object)
    return np.array(labels, {bool: np.bool_, int: np.int64, float: np.float64}[type(labels[0])])


def _scaled(graph: Graph, scale: Scale | None) -> str:
    """Add the scale of the columns, as in scaling.py. Return the name of the scaled x."""
    if scale is None or scale.form == PLAIN:
        return INPUT
    columns = scale.columns
    middle, unit, mean, factor = (np.full(scale.dim, rest) for rest in (0.0, 0.0, 0.0, scale.rest))
    middle[columns], unit[columns] = scale.middle, scale.unit
    mean[columns], factor[columns] = scale.mean, scale.scale
    x = INPUT
    if unit.any():
        # The function bent: k - 1 + a / 2^k for a = 1 + |u| from 2^k to 2^(k + 1), with the sign of u.
        u = graph.add("Div", graph.add("Sub", x, middle), np.where(unit > 0, unit, 1.0))
        a = graph.add("Add", graph.add("Min", graph.add("Abs", u), np.float64(BENT_FROM)), np.float64(1.0))
        k = graph.add("Floor", graph.add("Div", graph.add("Log", a), np.log(2.0)))
        part = graph.add("Div", a, graph.add("Pow", np.float64(2.0), k))
        size = graph.add("Add", graph.add("Sub", k, np.float64(1.0)), part)
        x = graph.add("Where", unit > 0, graph.add("Mul", graph.add("Sign", u), size), x)
    x = graph.add("Div", graph.add("Sub", x, mean), factor)
    return graph.add("Clip", x, np.float64(-CLIP), np.float64(CLIP))


def _kernel_values(graph: Graph, x: str, points: Array, kernel: Kernel) -> str:
    """Add the kernel values (n, SV) of x and the support vectors."""
    if kernel.code == LAPLACIAN:
        return graph.add("Exp", graph.add("Mul", graph.distances(x, points), np.float64(-kernel.gamma)))
    inner = graph.add("MatMul", x, points.T)
    if kernel.code == LINEAR:
        return inner
    if kernel.code == POLYNOMIAL:
        base = graph.add("Add", graph.add("Mul", inner, np.float64(kernel.gamma)), np.float64(kernel.coef0))
        return graph.add("Pow", base, np.float64(kernel.degree))
    own = graph.add("ReduceSum", graph.add("Mul", x, x), np.array([1]))
    squares = graph.add("Add", own, np.square(points).sum(axis=1))
    distances = graph.add("Max", graph.add("Sub", squares, graph.add("Mul", inner, np.float64(2.0))), np.float64(0.0))
    return graph.add("Exp", graph.add("Mul", distances, np.float64(-kernel.gamma)))


class Graph:
    """The nodes and constants of a model under construction."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, operator: str, *inputs: str | Any, output: str | None = None, **attributes: Any) -> str:
        """Add a node, and return the name of its output. An input is a name, or the value of a constant."""
        from onnx import helper  # noqa: PLC0415

        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        output = output or f"n{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def cast(self, name: str, dtype: type) -> str:
        """Add a conversion to another type of numbers."""
        from onnx import helper  # noqa: PLC0415

        return self.add("Cast", name, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def distances(self, x: str, points: Array) -> str:
        """Add the sums of absolute differences (n, SV) of x and points, row by row: all at once fill n * SV * dim."""
        from onnx import TensorProto, helper  # noqa: PLC0415

        nodes = [
            helper.make_node("Sub", ["row", self._constant(points)], ["away"]),
            helper.make_node("ReduceL1", ["away"], ["distance"], axes=[1], keepdims=0),
        ]
        row, found = (
            helper.make_tensor_value_info(name, TensorProto.DOUBLE, [size])
            for name, size in (("row", points.shape[1]), ("distance", points.shape[0]))
        )
        body = helper.make_graph(nodes, "distances", [row], [found])
        return self.add("Scan", x, body=body, num_scan_inputs=1)

    def model(self, dim: int, columns: int) -> ModelProto:
        """Return the model of all nodes."""
        from onnx import TensorProto, helper  # noqa: PLC0415

        labels = next(constant for constant in self._constants if constant.name == self._nodes[-1].input[0])
        graph = helper.make_graph(
            self._nodes,
            "hinged",
            [helper.make_tensor_value_info(INPUT, TensorProto.DOUBLE, ["n", dim])],
            [
                helper.make_tensor_value_info("label", labels.data_type, ["n"]),
                helper.make_tensor_value_info("decision", TensorProto.DOUBLE, ["n", columns]),
            ],
            self._constants,
        )
        versions = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION, producer_name="hinged")

    def _constant(self, value: Any) -> str:
        from onnx import numpy_helper  # noqa: PLC0415

        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name))
        return name
