"""Routes of the Open Inference Protocol (KServe's version 2): health, metadata and prediction, for platforms that use
the protocol.

A model takes one tensor x of shape [n, dim]. For texts, the shape is [n, 1]; with named features, there is one tensor
per name. The model returns the predicted class and the scores of each row, and the class that each column of the scores
represents. The model also returns the values of each row that lie outside everything learned. A model has only version
1. The protocol has no ids for examples, so an example that is predicted here does not wait for a label.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import numpy as np
from fastapi import Request
from starlette.responses import Response

from hinged.operations.base import BINARY, Operation
from hinged.service.api.inference.shapes import (
    DECISIONS,
    INFER_BODY,
    INPUTS,
    NOVELTY,
    OUTPUTS,
    InferBody,
    Inferred,
    ModelMetadata,
    ModelReady,
    ServerLive,
    ServerMetadata,
    ServerReady,
)
from hinged.service.api.inference.tensors import (
    Array,
    Datatype,
    InputTensor,
    OutputTensor,
    read_tensor,
    write_tensor,
)
from hinged.service.api.openapi import JSON_TYPE
from hinged.service.api.serving import Group
from hinged.service.api.whole import ProcessAnswer
from hinged.service.api.wire import (
    media_type_of,
    parsed,
    read_bytes,
    registry_of,
)
from hinged.service.commands.decide import verdicts_of
from hinged.service.commands.predict import decided_soon, make_decisions
from hinged.service.data.answers import Answer, json_pieces
from hinged.service.data.costs import ASK
from hinged.service.data.features.named import RecordFeatures
from hinged.service.data.features.records import FIELDS_MAX
from hinged.service.data.features.rows import rows_of
from hinged.service.data.inputs import Inputs, Records, join_long
from hinged.service.data.parts import Configuration
from hinged.service.data.portions import ELEMENTS_MAX, checked_lists
from hinged.service.data.problems import shown
from hinged.service.data.slices import Slices, sliced, spans
from hinged.service.data.trees import SMALL_BYTES, tree
from hinged.service.edge.middleware import JSON
from hinged.service.edge.refusals import Refusal
from hinged.service.engine.worker import Worker
from hinged.service.errors import BadRequest, Invalid, NotFound, UnsupportedMediaType
from hinged.service.model.decisions.costs import ASKED
from hinged.service.model.metrics import UNKNOWN
from hinged.service.settings import Settings

REFUSAL = Refusal(
    {
        "type": "object",
        "title": "ProtocolError",
        "description": "An error in the form of the Open Inference Protocol.",
        "required": ["error"],
        "additionalProperties": False,
        "properties": {"error": {"type": "string"}},
    },
    lambda error: {"error": error.message},
    {Invalid.status: BadRequest.status},
)
group = Group("open inference protocol", below="v2", refusal=REFUSAL)

X = "x"
VERSION = "1"
LENGTH_HEADER = "Inference-Header-Content-Length"
EXTENSIONS = ["binary_tensor_data"]
RECORDS = 50
"""Number of records that are made from columns before the event loop gets a turn. This many wide records take about a
millisecond.
"""
WANTED = "the input must be one tensor of numbers 'x' of shape [n, {}]"


# -- health and metadata ----------------------------------------------------------------------------------------------


@group.serves(Operation("GET", "/v2/health/live", role=None, probe=True), answers=ServerLive)
async def server_live() -> Answer:
    """Report that the process runs."""
    return {"live": True}


def _put_ready(mine: ProcessAnswer, others: Sequence[ProcessAnswer]) -> Response:
    """Report that the server is ready if all its processes are ready."""
    late = [answer.number for answer in (mine, *others) if answer.status != HTTPStatus.OK]
    if late:
        raise Invalid(f"the server is starting: process {late[0]} is not ready")
    return JSON({"ready": True})


@group.serves(
    Operation("GET", "/v2/health/ready", role=None, probe=True), Invalid, answers=ServerReady, put_together=_put_ready
)
async def server_ready(request: Request) -> Answer:
    """Report whether models are loaded: 200 once they are, 400 before. The protocol demands these codes."""
    if not registry_of(request).ready:
        raise Invalid("the server is starting: it compiles kernels and loads models")
    return {"ready": True}


@group.serves(Operation("GET", "/v2", role=None), answers=ServerMetadata)
async def server_metadata(request: Request) -> Answer:
    """Describe the server: name, version and extensions."""
    return {"name": request.app.title, "version": request.app.version, "extensions": EXTENSIONS}


@group.serves(Operation("GET", "/v2/models/{model}", role="reader"), answers=ModelMetadata)
@group.serves(Operation("GET", "/v2/models/{model}/versions/{version}", role="reader"), answers=ModelMetadata)
async def model_metadata(model: str, request: Request) -> Answer:
    """Describe the tensors that a model takes and returns."""
    worker = _worker(request, model)
    configuration = worker.model.configuration
    columns = configuration.features.columns_of(configuration, worker.published.reader)
    return {
        "name": model,
        "versions": [VERSION],
        "platform": f"hinged_{configuration.solver}",
        "inputs": [{"name": name, "datatype": datatype, "shape": shape} for name, datatype, shape in columns],
        "outputs": [
            {"name": "prediction", "datatype": "BYTES", "shape": [-1]},
            {"name": "scores", "datatype": "FP64", "shape": [-1, -1]},
            {"name": "classes", "datatype": "BYTES", "shape": [-1]},
            {"name": "outside", "datatype": "BYTES", "shape": [-1]},
            *(
                {"name": name, "datatype": "BYTES" if name in ("decision", "reason") else "FP64", "shape": [-1]}
                for name in _outputs(configuration)[len(OUTPUTS) :]
            ),
        ],
    }


@group.serves(Operation("GET", "/v2/models/{model}/ready", role="reader"), answers=ModelReady)
@group.serves(Operation("GET", "/v2/models/{model}/versions/{version}/ready", role="reader"), answers=ModelReady)
async def model_ready(model: str, request: Request) -> Answer:
    """Report whether a model can predict: 200 if the model is loaded and has learned an example, 400 if not."""
    if not _worker(request, model).published.labels:
        raise Invalid(f"model {model} has learned nothing yet")
    return {"name": model, "ready": True}


def _worker(request: Request, model: str) -> Worker:
    worker = registry_of(request).get(model)
    version = request.path_params.get("version", VERSION)
    if version != VERSION:
        raise NotFound(f"model {model!r} has only version {VERSION!r}, got {version[:80]!r}")
    return worker


# -- prediction -------------------------------------------------------------------------------------------------------


@group.serves(Operation("POST", "/v2/models/{model}/infer", role="reader"), answers=Inferred, takes=INFER_BODY)
@group.serves(
    Operation("POST", "/v2/models/{model}/versions/{version}/infer", role="reader"), answers=Inferred, takes=INFER_BODY
)
async def infer(model: str, request: Request) -> Response:
    """Predict the rows of tensors from the state published last."""
    worker = _worker(request, model)
    settings = registry_of(request).settings
    text, binary = await _read(request, settings.body_bytes_max)
    published = worker.published
    body, inputs = await sliced(_read_infer(text, binary, published.configuration, settings))
    wanted = _wanted(body, published.configuration)
    if not published.labels:
        raise Invalid(f"model {model} has learned nothing yet")
    verdicts = None
    if wanted.keys() & {*DECISIONS}:
        verdicts = await decided_soon(worker, published, inputs, partial(verdicts_of, published))
        worker.predictions_served += len(inputs)
    decided = (await make_decisions(worker, published, inputs)).decided if verdicts is None else verdicts.decided
    numbers, outside = decided.numbers.tolist(), decided.outside
    values: dict[str, Array | list[str]] = {
        "prediction": ["" if number == UNKNOWN else published.names[number] for number in numbers],
        "scores": published.score_columns(decided),
        "classes": list(published.names),
        "outside": [json.dumps(outside[r]) if r in outside else "[]" for r in range(len(inputs))],
    }
    if decided.novelty is not None:
        values[NOVELTY] = np.nan_to_num(decided.novelty, nan=1.0)
    if verdicts is not None:
        values |= {
            "decision": [ASK if number == ASKED else published.names[number] for number in verdicts.numbers.tolist()],
            "cost": np.nan_to_num(verdicts.costs, nan=-1.0),
            "reason": verdicts.reasons.tolist(),
        }
    outputs: list[OutputTensor] = []
    tail = b""
    for name, as_bytes in wanted.items():
        datatype: Datatype = "FP64" if isinstance(values[name], np.ndarray) else "BYTES"
        tensor, data = write_tensor(name, datatype, values[name], binary=as_bytes)
        outputs.append(tensor)
        tail += data
    answer: dict[str, Any] = {"model_name": model, "model_version": VERSION}
    if "id" in body:
        answer["id"] = body["id"]
    answer |= {"parameters": {"position": published.position}, "outputs": outputs}
    if not any(wanted.values()):
        return JSON(answer)
    head = b"".join(await sliced(json_pieces(answer)))
    return Response(head + tail, headers={LENGTH_HEADER: str(len(head))}, media_type=BINARY)


async def _read(request: Request, bytes_max: int) -> tuple[memoryview, memoryview]:
    """Return the JSON of a request, and the bytes after the JSON."""
    length = request.headers.get(LENGTH_HEADER)
    media_type = media_type_of(request)
    # Many clients send no content type here. A page from a foreign origin is refused because of its Origin header.
    if media_type not in ("", JSON_TYPE, *([BINARY] if length is not None else [])):
        raise UnsupportedMediaType(f"Content-Type must be {JSON_TYPE}, got {media_type!r}")
    data = await read_bytes(request, bytes_max)
    if length is None:
        return memoryview(data), memoryview(b"")
    if not (length.isdecimal() and len(length) < 16 and int(length) <= len(data)):
        raise Invalid(
            f"{LENGTH_HEADER} must be the length of the JSON in a body of {len(data)} bytes, got {length[:80]!r}"
        )
    return memoryview(data)[: int(length)], memoryview(data)[int(length) :]


def _read_infer(
    text: memoryview, binary: memoryview, configuration: Configuration, settings: Settings
) -> Slices[tuple[InferBody, Inputs]]:
    """Return the parsed request and its inputs. Raise Invalid."""
    long = len(text) > SMALL_BYTES
    body = (yield from _read_long(text, configuration, settings)) if long else parsed(INFER_BODY.adapter, bytes(text))
    _wanted(body, configuration)
    return body, (yield from _inputs(body["inputs"], binary, configuration, settings.batch_examples_max))


def _read_long(text: memoryview, configuration: Configuration, settings: Settings) -> Slices[Any]:
    """Parse a long body. First check its tensors without their data, then check the data tensor by tensor."""
    rows = settings.batch_examples_max
    most = rows * (configuration.features.dim if configuration.features.IN_ROWS else 1)
    told = yield from tree(text, {"": ELEMENTS_MAX, "inputs": FIELDS_MAX, "data": most}, flat="data")
    if not isinstance(told, dict):
        raise Invalid(f"body must be an object, got {shown(told)}")
    given = told.get("inputs")
    data: list[Any] = []
    if isinstance(given, list):
        data = [tensor.pop("data", None) if isinstance(tensor, dict) else None for tensor in given]
    rest, lists = yield from checked_lists(told, {"inputs": INPUTS})
    body = parsed(INFER_BODY.adapter, rest | ({"inputs": lists["inputs"][:1]} if "inputs" in lists else {}))
    for place, tensor in enumerate(lists["inputs"]):
        if isinstance(data[place], list):
            tensor["data"] = data[place]
        elif data[place] is not None:
            raise Invalid(f"inputs[{place}].data must be a list, got {shown(data[place])}")
    told.update(body | lists)
    return told


def _wanted(body: InferBody, configuration: Configuration) -> dict[str, bool]:
    """Return whether each wanted output is sent as bytes. The outputs are in the order of the request."""
    names = _outputs(configuration)
    as_bytes = body.get("parameters", {}).get("binary_data_output") is True
    if not body.get("outputs"):
        return dict.fromkeys((name for name in names if name not in DECISIONS), as_bytes)
    wanted = {}
    for output in body["outputs"]:
        if output["name"] not in names:
            raise Invalid(f"outputs must be among {', '.join(names)}, got {output['name'][:80]!r}")
        wanted[output["name"]] = output.get("parameters", {}).get("binary_data", as_bytes) is True
    return wanted


def _outputs(configuration: Configuration) -> tuple[str, ...]:
    """Return the names of a model's outputs."""
    novelty = () if configuration.novelty is None else (NOVELTY,)
    return OUTPUTS + novelty + (() if configuration.costs is None else DECISIONS)


def _inputs(
    tensors: list[InputTensor], binary: memoryview, configuration: Configuration, rows_max: int
) -> Slices[Inputs]:
    values = {}
    at = 0
    for tensor in tensors:
        name = tensor["name"]
        if name in values:
            raise Invalid(f"input {name[:80]!r} is given twice")
        if not 1 <= tensor["shape"][0] <= rows_max:
            raise Invalid(f"input {name[:80]!r} must have 1 to {rows_max} rows, got {tensor['shape'][0]}")
        size = tensor.get("parameters", {}).get("binary_data_size")
        part = None
        if size is not None:
            if type(size) is not int or not 0 <= size <= len(binary) - at:
                raise Invalid(f"input {name[:80]!r}: binary_data_size must be 0 to {len(binary) - at}, got {size!r}")
            part = binary[at : at + size]
            at += size
        if configuration.features.IN_ROWS:
            _check_shape(tensor["shape"], configuration.features.dim)
        values[name] = yield from read_tensor(tensor, part)
    if at != len(binary):
        raise Invalid(f"{len(binary) - at} bytes behind the JSON belong to no input")
    if isinstance(configuration.features, RecordFeatures):
        return (yield from _records(values, tensors, configuration.features))
    x = values.get(X)
    if len(values) != 1 or not isinstance(x, np.ndarray) or x.dtype == bool:
        raise Invalid(WANTED.format(configuration.features.dim))
    rows = []
    for begin, end in spans(np.arange(len(x) + 1) * x.shape[1]):
        rows.append(rows_of(x[begin:end], configuration, begin))
        if end < len(x):
            yield
    return (yield from join_long(rows))


def _check_shape(shape: list[int], dim: int) -> None:
    if len(shape) != 2:
        raise Invalid(WANTED.format(dim))
    if shape[1] != dim:
        raise Invalid(f"x[0]: expected {dim} features, got {shape[1]}", index=0)


def _records(
    values: dict[str, Array | list[str]], tensors: list[InputTensor], features: RecordFeatures
) -> Slices[Records]:
    if features.LONE is not None:
        if list(values) != [X] or tensors[0]["datatype"] != "BYTES":
            raise Invalid(f"the input must be one tensor of BYTES {X!r} of shape [n, 1]")
        values = {features.LONE: values[X]}
    rows = tensors[0]["shape"][0]
    for tensor in tensors:
        if tensor["shape"][0] != rows or tensor["shape"][1:] not in ([], [1]):
            raise Invalid(
                f"input {tensor['name'][:80]!r}: all inputs must have one column and the same number of rows, "
                f"got shapes {tensors[0]['shape']} and {tensor['shape']}"
            )
    columns = [column.ravel().tolist() if isinstance(column, np.ndarray) else column for column in values.values()]
    xs = (dict(zip(values, row, strict=True)) for row in zip(*columns, strict=True))
    found = []
    for r, x in enumerate(xs):
        found.append(features.record_of(x, r))
        if r % RECORDS == RECORDS - 1:
            yield
    return Records(tuple(found))
