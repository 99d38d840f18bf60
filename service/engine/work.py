"""What a model's worker is given to do, and what it answers to learning."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from hinged.service.commands.ask import Command
from hinged.service.commands.learn import LearnRequest, Votes
from hinged.service.data.classes import Label
from hinged.service.engine.retraining import Fold
from hinged.service.model.pending import Made


class Learnt(NamedTuple):
    """The answer to one learned example; prediction and score are None where no class was known, or no longer are.

    votes: what has been collected, where a candidate needs several labels.
    """

    id: str
    prediction: Label | None
    score: float | None
    duplicate: bool
    votes: Votes | None = None


@dataclass(frozen=True, slots=True)
class LearnAnswer:
    """Answers in the order of the request, and the position at which the model then stood."""

    position: int
    results: list[Learnt]


@dataclass(frozen=True, slots=True)
class Finishing:
    """The finishing step, after so many further epochs over the log."""

    epochs: int = 0


@dataclass(frozen=True, slots=True)
class Keeping:
    """Predictions to be written now."""

    predictions: list[Made]


@dataclass(frozen=True, slots=True)
class RollingBack:
    """The state becomes what it was at a position."""

    position: int


@dataclass(frozen=True, slots=True)
class SettingAside:
    """The event before which the model stands is passed over. position: where it stands, None for whichever it is."""

    position: int | None


@dataclass(frozen=True, slots=True)
class Snapshotting:
    """A snapshot is to be kept now."""


@dataclass(frozen=True, slots=True)
class Swapping:
    """Learners that were taught anew take their places."""

    fold: Fold


@dataclass(frozen=True, slots=True)
class Catching:
    """A fold goes on for so long while the model learns nothing."""

    fold: Fold
    seconds: float


@dataclass(frozen=True, slots=True)
class Settling:
    """The jobs of a fold have ended. unwritten: what the store could not write anew."""

    fold: Fold
    unwritten: list[str]


Work: TypeAlias = (
    LearnRequest
    | Finishing
    | Keeping
    | RollingBack
    | SettingAside
    | Snapshotting
    | Swapping
    | Catching
    | Settling
    | Command
)


@dataclass(slots=True)
class Queued:
    """Work that waits."""

    work: Work
    future: asyncio.Future[Any]

    @property
    def examples(self) -> int:
        """That it teaches."""
        return len(self.work.ids) if isinstance(self.work, LearnRequest) else 0
