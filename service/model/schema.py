"""Schemas of the facts of a snapshot. The parts that load the arrays check the arrays.

A snapshot may come from a file that anybody wrote, so a valid checksum does not make its state valid.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, Strict, StrictBool, StrictInt, StrictStr, TypeAdapter, with_config
from typing_extensions import TypedDict

from hinged.answers import AlertReason, JobKind, JobStage, MarkKind, TreeHead
from hinged.service import limits
from hinged.service.model.window import MS_MAX

STRICT = ConfigDict(strict=True, allow_inf_nan=False)

AnyLabel = StrictBool | StrictInt | StrictStr
Count = Annotated[int, Field(ge=0, lt=2**53)]
Milliseconds = Annotated[int, Field(ge=0, le=MS_MAX)]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
HookId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Url = Annotated[str, Field(min_length=1, max_length=limits.URL_CHARS_MAX)]


@with_config(STRICT)
class LeaseFacts(TypedDict):
    """A lease (pool.py)."""

    token: str
    annotator: str
    expires_ms: Milliseconds
    reason: str
    score: float | None
    length_ms: Milliseconds
    closed: bool
    skipped: NotRequired[Literal["me", "all"]]


@with_config(STRICT)
class CandidateFacts(TypedDict):
    """A candidate. Its x is in the arrays."""

    id: str
    label: AnyLabel | None
    show: NotRequired[Any]
    leases: list[LeaseFacts]
    votes: list[Annotated[tuple[StrictStr, AnyLabel], Strict(strict=False)]]
    skipped_by: list[str]
    skipped_by_all: bool


@with_config(STRICT)
class PoolFacts(TypedDict):
    """The pool."""

    answered: Count
    disagreed: Count
    asked: list[Annotated[tuple[StrictStr, StrictStr, list[StrictStr]], Strict(strict=False)]]
    tokens: list[str]
    candidates: list[CandidateFacts]


@with_config(STRICT)
class AnswersFacts(TypedDict):
    """First answers: the ids of the newest examples. The last of these examples has the number `newest`."""

    newest: Count
    ids: list[str | None]


@with_config(STRICT)
class PendingFacts(TypedDict):
    """Predictions that wait for their labels."""

    ids: list[str]


@with_config(STRICT)
class LearnerFacts(TypedDict):
    """A learner. The vocabulary and the scaling check their own facts."""

    configuration: dict[str, Any]
    learned: Count
    gamma: Annotated[float, Field(gt=0)]
    labels: list[AnyLabel]
    stopped: str | None
    warm_ids: NotRequired[list[str | None]]
    warm_candidates: NotRequired[Count]


@with_config(STRICT)
class TombstonesFacts(TypedDict):
    """Keyed hashes of the ids of forgotten examples."""

    salt: Annotated[str, Field(pattern="^([0-9a-f]{32})?$")]
    marks: list[Annotated[str, Field(pattern="^[0-9a-f]{32}$")]]


@with_config(STRICT)
class JobFacts(TypedDict):
    """A job that is running or has ended (jobs.py)."""

    at: Count
    kind: JobKind
    folds: bool
    number: Count | None
    configuration: dict[str, Any] | None
    shadow: str | None
    state: JobStage
    result: dict[str, Any]
    error: str | None


@with_config(STRICT)
class CurvesFacts(TypedDict):
    """Learning curves (curves.py): the strides for the model and for each challenger, the marks, and the parts of
    the configuration that changed at marks.
    """

    stride: Annotated[int, Field(ge=1, lt=2**53)]
    shadows: dict[str, Annotated[int, Field(ge=1, lt=2**53)]]
    marks: list[Annotated[tuple[MarkKind, Count, Count, Milliseconds], Strict(strict=False)]]
    changed: NotRequired[list[Annotated[tuple[Count, list[str]], Strict(strict=False)]]]


@with_config(STRICT)
class AnswerFacts(TypedDict):
    """An annotator's answer (annotators.py)."""

    id: str
    annotator: str
    label: AnyLabel
    prediction: AnyLabel | None
    at_ms: Milliseconds


@with_config(STRICT)
class TallyFacts(TypedDict):
    """The figures of an annotator."""

    labelled: Count
    skipped: Count
    changed: Count
    predicted: Count
    as_predicted: Count
    compared: Count
    agreed: Count


@with_config(STRICT)
class AnnotatorsFacts(TypedDict):
    """The newest answers, and the figures of each annotator."""

    answers: list[AnswerFacts]
    tallies: list[Annotated[tuple[StrictStr, TallyFacts], Strict(strict=False)]]


@with_config(STRICT)
class RevisionsFacts(TypedDict):
    """The times at which another program changed its examples (revisions.py)."""

    newest: list[Annotated[tuple[StrictStr, Milliseconds], Strict(strict=False)]]


@with_config(STRICT)
class HooksFacts(TypedDict):
    """The hooks (hooks.py), and the marks that wait."""

    every: list[Annotated[tuple[HookId, Url, list[MarkKind], Milliseconds, Count], Strict(strict=False)]]
    marks: list[Annotated[tuple[MarkKind, Count, Count, Milliseconds], Strict(strict=False)]]


@with_config(STRICT)
class AllowanceFacts(TypedDict):
    """How often a limited decision was taken (decisions/capacity.py). Its counts are in the arrays."""

    period: Annotated[int, Field(ge=-1, lt=2**53)]
    taken: Count
    refused: Count
    periods: Count
    first: Count
    begun: Annotated[float, Field(ge=0, lt=1)]


AlertFacts = Annotated[
    tuple[StrictStr, StrictStr, float, float | None, float | None, AlertReason, Milliseconds, Count],
    Strict(strict=False),
]


@with_config(STRICT)
class AlertsFacts(TypedDict):
    """The alerts that wait, and those that may be reopened (decisions/alerts.py)."""

    waiting: list[AlertFacts]
    raised: Count
    closed: NotRequired[list[AlertFacts]]


@with_config(STRICT)
class InputAlarmFacts(TypedDict):
    """The fixed sample of the alarm about inputs (promises/inputs.py)."""

    ids: list[str]
    rows: dict[str, Any] | None
    columns: Count


@with_config(STRICT)
class NoveltyFacts(TypedDict):
    """The sample of the x that were seen (novelty.py). xs, rows: facts of batches, which their reader checks."""

    seen: Count
    fresh: Count
    ids: list[str]
    xs: NotRequired[dict[str, Any]]
    rows: NotRequired[dict[str, Any]]
    alarm: NotRequired[InputAlarmFacts]


@with_config(STRICT)
class ReceiptsFacts(TypedDict):
    """The tree of the receipts (receipts.py)."""

    through: Count
    peaks: list[Hash]
    head: TreeHead


@with_config(STRICT)
class StateFacts(TypedDict):
    """The whole state."""

    position: Annotated[int, Field(ge=1, lt=2**53)]
    learned: Count
    at_ms: Milliseconds
    undone: list[Annotated[tuple[Count, Count], Strict(strict=False)]]
    reads_back_at: Count
    floor: Count
    old_ids: list[Annotated[tuple[Count, StrictStr], Strict(strict=False)]]
    corrections: list[Annotated[tuple[Count, Count], Strict(strict=False)]]
    learner: LearnerFacts
    shadows: dict[str, LearnerFacts]
    jobs: list[JobFacts]
    set_aside: NotRequired[list[Annotated[tuple[Count, StrictStr], Strict(strict=False)]]]
    traces: TombstonesFacts
    answers: AnswersFacts
    pool: PoolFacts
    pending: PendingFacts
    curves: NotRequired[CurvesFacts]
    annotators: NotRequired[AnnotatorsFacts]
    revisions: NotRequired[RevisionsFacts]
    hooks: NotRequired[HooksFacts]
    rations: NotRequired[dict[str, AllowanceFacts]]
    alerts: NotRequired[AlertsFacts]
    novelty: NotRequired[NoveltyFacts]
    receipts: NotRequired[ReceiptsFacts]


FACTS: TypeAdapter[StateFacts] = TypeAdapter(StateFacts)
