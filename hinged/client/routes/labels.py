"""The pool, its questions and the answers to them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from hinged.client.exchange import Call, Exchange, exchange
from hinged.client.methods import route
from hinged.client.routes.asking import FINISH_TIMEOUT_S, Asking, Strategy
from hinged.client.routes.paths import path_of, path_of_lease
from hinged.client.shapes import (
    Answers,
    Candidates,
    Changed,
    Offered,
    Peeked,
    Queries,
    Reconciled,
    Released,
    ReleasedBefore,
    Renewed,
    Skipped,
    SkippedBefore,
)
from hinged.client.values import Examples, given, plain

if TYPE_CHECKING:
    from collections.abc import Sequence


class LabelRoutes(Asking):
    """What is asked of the pool."""

    @route
    def offer(self, model: str, examples: Examples) -> Exchange[Offered]:
        """Put unlabelled examples {"id", "x"} into the model's pool; `show` is what a person sees in the place of x."""
        return self._ask("POST", f"{path_of(model)}/pool", {"examples": plain(examples)})

    @route
    def offer_rows(
        self, model: str, X: Any, ids: Sequence[str], shows: Sequence[Any] | None = None
    ) -> Exchange[Offered]:
        """Put rows of numbers into the model's pool; shows: what a person sees in the place of each, None for x."""
        return self._ask_rows(f"{path_of(model)}/pool", X, None, ids, shows)

    @route
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
    ) -> Exchange[Queries]:
        """Lease the examples of the pool whose labels are worth most. Those that the annotator has open come first.

        request_id  the same one again gets the same answer; a random one if none is given
        held  leases that this place holds still: of the annotator's open ones those alone come, all if none are given
        """
        return self._ask(
            "POST",
            f"{path_of(model)}/queries",
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

    @route
    def queries(self, model: str, *, n: int = 1, strategy: Strategy = "active") -> Exchange[Peeked]:
        """What would be asked next, what is leased, and how full the pool is; nothing changes."""
        return self._ask("GET", f"{path_of(model)}/queries", query={"n": n, "strategy": strategy})

    @route
    def candidates(self, model: str, *, n: int = 100) -> Exchange[Candidates]:
        """The candidates that were offered first, and what the model says of each."""
        return self._ask("GET", f"{path_of(model)}/pool", query={"n": n})

    @route
    def answers(self, model: str, *, annotator: str | None = None, n: int = 50) -> Exchange[Answers]:
        """The newest answers to questions, and each annotator in numbers."""
        return self._ask("GET", f"{path_of(model)}/answers", query={"annotator": annotator, "n": n})

    @route
    def change_answer(self, model: str, example: str, *, annotator: str, y: Any) -> Exchange[Changed]:
        """Give another label than before. Where the model is taught anew the answer names a `job`."""
        path = f"{path_of(model)}/answers/{quote(example, safe='')}"
        return self._ask("PUT", path, {"annotator": annotator, "y": y})

    @route
    def forget_answer(self, model: str, example: str, *, annotator: str) -> Exchange[Changed]:
        """Forget what this annotator alone has answered. Where the model is taught anew the answer names a `job`."""
        path = f"{path_of(model)}/answers/{quote(example, safe='')}"
        call = Call("DELETE", path, query={"annotator": annotator}, timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, self.tries_max)

    @route
    def reconcile(self, model: str, project: int) -> Exchange[Reconciled]:
        """Bring a model level with the annotations of a project of Label Studio, which the server knows."""
        path = f"/labelstudio/models/{quote(model, safe='')}/reconcile"
        call = Call("POST", path, {"project": project}, timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, self.tries_max, self.owners)

    @route
    def heartbeat(self, model: str, lease: str, *, lease_s: float | None = None) -> Exchange[Renewed]:
        """Keep a lease for longer."""
        return self._ask("POST", path_of_lease(model, lease, "heartbeat"), given(lease_s=lease_s))

    @route
    def release(self, model: str, lease: str) -> Exchange[Released | ReleasedBefore]:
        """Give a leased example back to the pool."""
        return self._ask("POST", path_of_lease(model, lease, "release"), {}, gone={"released": True})

    @route
    def skip(self, model: str, lease: str, *, whom: Literal["me", "all"] = "me") -> Exchange[Skipped | SkippedBefore]:
        """Never ask this annotator, or anybody, for this example again."""
        return self._ask("POST", path_of_lease(model, lease, "skip"), {"for": whom}, gone={"skipped": whom})

    @route
    def unskip(self, model: str, lease: str) -> Exchange[Renewed]:
        """Take a skip back: the lease is open again."""
        return self._ask("DELETE", path_of_lease(model, lease, "skip"))
