"""The bodies and answers of the Open Inference Protocol's routes."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from hinged.service.api.inference.tensors import InputTensor, OutputTensor, Parameters
from hinged.service.api.openapi import Shape
from hinged.service.data.features.records import FIELDS_MAX

OUTPUTS = ("prediction", "scores", "classes", "outside")
NOVELTY = "novelty"
DECISIONS = ("decision", "cost", "reason")
"""The names of outputs. Only models with novelty have NOVELTY, and only models with costs have DECISIONS, which come if
a request names them.
"""
OUTPUTS_MAX = len(OUTPUTS) + 1 + len(DECISIONS)


@with_config(ConfigDict(strict=True))
class WantedOutput(TypedDict):
    """An output that a request asks for."""

    name: str
    parameters: NotRequired[Parameters]


@with_config(ConfigDict(strict=True))
class InferBody(TypedDict):
    """Examples as tensors."""

    id: NotRequired[str]
    parameters: NotRequired[Parameters]
    inputs: Annotated[list[InputTensor], Field(min_length=1, max_length=FIELDS_MAX, fail_fast=True)]
    outputs: NotRequired[Annotated[list[WantedOutput], Field(max_length=OUTPUTS_MAX, fail_fast=True)]]


class ServerLive(TypedDict):
    """Whether the process is running."""

    live: bool


class ServerReady(TypedDict):
    """Whether models are loaded."""

    ready: bool


class ServerMetadata(TypedDict):
    """The name, version and extensions of the server."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(TypedDict):
    """A tensor that a model takes or returns. A -1 in its shape means any number."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(TypedDict):
    """The tensors of a model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ModelReady(TypedDict):
    """Whether a model can predict."""

    name: str
    ready: bool


class Inferred(TypedDict):
    """Predictions as tensors."""

    model_name: str
    model_version: str
    id: NotRequired[str]
    parameters: dict[str, Any]
    outputs: list[OutputTensor]


INPUTS: TypeAdapter[list[InputTensor]] = TypeAdapter(Annotated[list[InputTensor], Field(fail_fast=True)])
INFER_BODY = Shape(
    InferBody,
    {
        "id": "one",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [0.1, 0.9, 0.9, 0.1]}],
    },
)
