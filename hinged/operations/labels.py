"""Operations on the pool: offer candidates, lease queries, and give and change answers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from hinged.answers import (
    Answers,
    Candidates,
    Changed,
    Offered,
    Peeked,
    Queries,
    Reconciled,
    Released,
    Renewed,
    Skipped,
)
from hinged.operations.base import LONG_S, Call, Operation, Strategy
from hinged.operations.values import Examples, given, plain


class ReleasedBefore(TypedDict):
    """The answer to a repeated release. The lease was already released."""

    released: Literal[True]


class SkippedBefore(TypedDict):
    """The answer to a repeated skip. The lease was already skipped."""

    skipped: Literal["me", "all"]


class LabelOperations:
    """The clients' methods for the pool and its labels."""

    @Operation("POST", "/models/{model}/pool", role="writer", frame="pool").asked
    def offer(self, model: str, examples: Examples) -> Call[Offered]:
        """Add unlabelled examples {"id", "x"} to the model's pool. `show` is what people see instead of x."""
        return Call({"examples": plain(examples)})

    @Operation("POST", "/models/{model}/queries", role="annotator", frame="query").asked
    def query(
        self,
        model: str,
        *,
        annotator: str,
        n: int = 1,
        strategy: Strategy = "active",
        lease_s: float | None = None,
        search: int | None = None,
        request_id: str | None = None,
        held: Sequence[str] | None = None,
    ) -> Call[Queries]:
        """Lease the pool's examples whose labels are worth most. The annotator's open leases come first.

        request_id: a retry with the same request_id gets the same answer. The default is a random id.
        held: leases that the caller still has. If given, only these of the annotator's open leases are repeated. By
        default, all open leases are repeated.
        """
        return Call(
            given(
                n=n,
                annotator=annotator,
                strategy=strategy,
                lease_s=lease_s,
                search=search,
                request_id=uuid.uuid4().hex if request_id is None else request_id,
                held=None if held is None else list(held),
            ),
        )

    @Operation("GET", "/models/{model}/queries", role="reader").asked
    def queries(self, model: str, *, n: int = 1, strategy: Strategy = "active") -> Call[Peeked]:
        """Return the next questions, the leases and the pool's size. Nothing changes."""
        return Call(query={"n": n, "strategy": strategy})

    @Operation("GET", "/models/{model}/pool", role="annotator").asked
    def candidates(self, model: str, *, n: int = 100) -> Call[Candidates]:
        """Return the oldest candidates, and the model's prediction for each."""
        return Call(query={"n": n})

    @Operation("GET", "/models/{model}/answers", role="annotator").asked
    def answers(self, model: str, *, annotator: str | None = None, n: int = 50) -> Call[Answers]:
        """Return the newest answers to questions, and the figures of each annotator."""
        return Call(query={"annotator": annotator, "n": n})

    @Operation("PUT", "/models/{model}/answers/{example:path}", role="annotator").asked
    def change_answer(self, model: str, example: str, *, annotator: str, y: Any) -> Call[Changed]:
        """Replace an annotator's answer with another label. If the model is retrained, the result names a `job`."""
        return Call({"annotator": annotator, "y": y})

    # an annotator name other than the key's needs the role writer: see `check_name`
    @Operation("DELETE", "/models/{model}/answers/{example:path}", role="annotator").asked
    def forget_answer(self, model: str, example: str, *, annotator: str) -> Call[Changed]:
        """Forget an example that only this annotator has answered. If the model is retrained, the result names a
        `job`.
        """
        return Call(query={"annotator": annotator}, timeout_s=LONG_S)

    @Operation("POST", "/labelstudio/models/{model}/reconcile", role="writer", basic=True).asked
    def reconcile(self, model: str, project: int) -> Call[Reconciled]:
        """Bring a model up to date with the annotations of a Label Studio project. The server's settings name the Label
        Studio.
        """
        return Call({"project": project}, timeout_s=LONG_S)

    @Operation("POST", "/models/{model}/queries/{lease}/heartbeat", role="annotator").asked
    def heartbeat(self, model: str, lease: str, *, lease_s: float | None = None) -> Call[Renewed]:
        """Extend a lease."""
        return Call(given(lease_s=lease_s))

    @Operation("POST", "/models/{model}/queries/{lease}/release", role="annotator").asked
    def release(self, model: str, lease: str) -> Call[Released | ReleasedBefore]:
        """Return a leased example to the pool."""
        return Call({}, gone={"released": True})

    @Operation("POST", "/models/{model}/queries/{lease}/skip", role="annotator").asked
    def skip(self, model: str, lease: str, *, whom: Literal["me", "all"] = "me") -> Call[Skipped | SkippedBefore]:
        """Skip an example. The server never asks this annotator about the example again. If `whom` is "all", the server
        never asks any annotator again.
        """
        return Call({"for": whom}, gone={"skipped": whom})

    @Operation("DELETE", "/models/{model}/queries/{lease}/skip", role="annotator").asked
    def unskip(self, model: str, lease: str) -> Call[Renewed]:
        """Undo a skip: the lease is open again."""
        return Call()
