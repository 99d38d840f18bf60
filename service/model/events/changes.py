"""What is taken out of a model, put right, or configured anew, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hinged.service.model.events.facts import Facts


@dataclass(frozen=True, slots=True)
class Forgotten(Facts):
    """An example is to leave no trace. mark: what stays of its id (tombstones.py); salt: of the first mark's.

    number: the example's, None if it was never learned.
    """

    KIND: ClassVar[str] = "forgotten"
    mark: str
    salt: str
    number: int | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Corrected(Facts):
    """An example has another label: class number, and hex of the 16 bytes that tell it from any other example now.

    annotator: who changed an answer of his own so.
    """

    KIND: ClassVar[str] = "corrected"
    number: int
    label: int
    content: str
    at_ms: int
    annotator: str | None = None


@dataclass(frozen=True, slots=True)
class Intended(Facts):
    """A configuration that is taught from the log, the model's own or that of a challenger named `shadow`."""

    KIND: ClassVar[str] = "intended"
    configuration: dict[str, Any]
    shadow: str | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Reconfigured(Facts):
    """The model has this configuration from now on, its solver changed in place."""

    KIND: ClassVar[str] = "reconfigured"
    configuration: dict[str, Any]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Settled(Facts):
    """These jobs (positions of the events that began them) are done, or failed because of `error`."""

    KIND: ClassVar[str] = "settled"
    jobs: list[int]
    result: dict[str, Any]
    error: str | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Retired(Facts):
    """A challenger is gone."""

    KIND: ClassVar[str] = "retired"
    shadow: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Promoted(Facts):
    """A challenger took the model's place."""

    KIND: ClassVar[str] = "promoted"
    shadow: str
    at_ms: int
