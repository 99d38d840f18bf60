"""Operations on examples: learn, predict, rank, show, correct, forget."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from hinged.answers import (
    Changed,
    ExampleDecisions,
    Learned,
    ListedExamples,
    Predicted,
    Ranked,
    ShownExample,
    Suspects,
)
from hinged.operations.base import DEFAULT, LONG_S, Call, Operation, Strategy
from hinged.operations.values import Examples, given, plain, with_ids


class ExampleOperations:
    """The clients' methods for examples."""

    # an example with an x needs the role writer: see `check_examples`
    @Operation("POST", "/models/{model}/learn", role="annotator", frame="learn", small=True).asked
    def learn(self, model: str, examples: Examples) -> Call[Learned]:
        """Learn examples {"x", "y", "id"}, in order; an example without an id gets a random id.

        An example in the model's pool, or of a prediction with an id, needs no x: {"id", "y"}. If a query asked for the
        label, add the "lease" of the query. A "weight" multiplies C for its example. Each result contains the
        prediction that was made just before its example was learned.
        """
        return Call({"examples": with_ids(examples)})

    @Operation("POST", "/models/{model}/predict", role="reader", frame="predict", small=True, replicas=True).asked
    def predict(
        self,
        model: str,
        examples: Examples,
        *,
        explain: int | None = None,
        probabilities: bool | list[str] | None = None,
        intervals: bool | list[str] | None = None,
        conformal: Literal["full"] | None = None,
        min_position: int | None = None,
    ) -> Call[Predicted]:
        """Predict examples {"x", "id"}. The server keeps an example with an id until its label comes.

        explain: number of support vectors to return for each prediction. The vectors that contribute most are returned.
        probabilities: the names of the classes whose probabilities each result lists, as in `scores`; True for all
        classes.
        intervals: the same for the interval [p0, p1] of each probability, by the newest labels.
        conformal: "full" for the p-value of each class, from a model of the solver exact.
        min_position: a position of the log, as returned by learn. The prediction uses a state at or after this
        position.
        """
        more = given(explain=explain, probabilities=probabilities, intervals=intervals, conformal=conformal)
        body = {"examples": plain(examples), **more}
        return Call(body, query=given(min_position=min_position))

    @Operation("POST", "/models/{model}/decide", role="writer", frame="decide", small=True).asked
    def decide(
        self, model: str, examples: Examples, *, probabilities: bool | list[str] | None = None
    ) -> Call[ExampleDecisions]:
        """Decide about examples {"x", "id"} by the `costs` of the model's configuration.

        Each result contains the decision with the lowest expected cost: a class, or "ask". If the decision is "ask",
        the example is in the model's pool as a question. Like a prediction, an example with an id waits for its label.

        probabilities: the names of the classes whose probabilities each result lists, as in `scores`; True for all
        classes.
        """
        return Call(given(examples=plain(examples), probabilities=probabilities))

    @Operation("POST", "/models/{model}/rank", role="reader", replicas=True).asked
    def rank(
        self,
        model: str,
        examples: Examples,
        *,
        n: int | None = None,
        strategy: Strategy = "active",
    ) -> Call[Ranked]:
        """Rank examples {"id", "x"} by the value of their labels, and return the best n. The server stores nothing."""
        return Call(given(examples=plain(examples), n=n, strategy=strategy))

    @Operation("GET", "/models/{model}/suspects", role="reader").asked
    def suspects(self, model: str, *, n: int = 10) -> Call[Suspects]:
        """Return learned examples whose labels are probably wrong."""
        return Call(query={"n": n})

    @Operation("GET", "/models/{model}/examples/{example:path}", role="annotator").asked
    def example(self, model: str, example: str) -> Call[ShownExample]:
        """Return an example that was learned, is in the pool, or waits for its label: its x, and its label if known."""
        return Call()

    @Operation("GET", "/models/{model}/examples", role="annotator").asked
    def examples(
        self,
        model: str,
        *,
        n: int = 100,
        cursor: str | None = None,
        label: str | None = None,
        annotator: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        x: bool = False,
    ) -> Call[ListedExamples]:
        """Return a page of the learned examples, oldest first. `next` is the cursor of the following page.

        label: only examples with this label, written as in `scores`.
        annotator: only examples to which this annotator gave a label.
        since, until: only examples learned at or after `since` and before `until`. A time without a zone is UTC.
        x: whether each example has its x and its weight.
        """
        query = {"from": _time(since), "to": _time(until), "label": label, "annotator": annotator, "cursor": cursor}
        return Call(query={**query, "n": n, "x": "true" if x else None})

    @Operation("DELETE", "/models/{model}/examples/{example:path}", role="writer").asked
    def forget(self, model: str, example: str) -> Call[Changed]:
        """Forget an example. Return a {"certificate"} if this is done, or the {"job"} that will do it."""
        return Call(timeout_s=LONG_S)

    @Operation("PUT", "/models/{model}/examples/{example:path}", role="writer").asked
    def correct(self, model: str, example: str, y: Any) -> Call[Changed]:
        """Give a learned example a different label. Return a {"certificate"}, or the {"job"} that retrains the
        model.
        """
        return Call({"y": y}, timeout_s=LONG_S)


def _time(given: datetime | str | None) -> str | None:
    return given.isoformat() if isinstance(given, datetime) else given


LEARN_DEFAULT: Operation[..., None] = Operation("POST", "/learn", role="annotator", covers=DEFAULT, small=True)
PREDICT_DEFAULT: Operation[..., None] = Operation(
    "POST", "/predict", role="reader", covers=DEFAULT, small=True, replicas=True
)
"""The same operation for the model "default", for requests that name no model."""
