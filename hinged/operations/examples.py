"""Operations on examples: learn, predict, rank, show, correct, forget."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hinged.answers import Changed, Learned, ListedExamples, Predicted, Ranked, ShownExample, Suspects
from hinged.operations.base import DEFAULT, LONG_S, Call, Operation, Strategy
from hinged.operations.values import Examples, given, plain, with_ids


class ExampleOperations:
    """The clients' methods for examples."""

    # an example with an x needs the role writer: see `check_examples`
    @Operation("POST", "/models/{model}/learn", role="annotator", frame="learn", small=True).asked
    def learn(self, model: str, examples: Examples) -> Call[Learned]:
        """Learn examples {"x", "y", "id"}, in order; an example without an id gets a random id.

        An example that the model knows, from its pool or from a prediction with an id, needs no x: {"id", "y"}, with
        the "lease" of the query that asked for it. Each result holds the prediction made right before that example was
        learned.
        """
        return Call({"examples": with_ids(examples)})

    @Operation("POST", "/models/{model}/predict", role="reader", frame="predict", small=True, replicas=True).asked
    def predict(
        self,
        model: str,
        examples: Examples,
        *,
        explain: int | None = None,
        probabilities: bool | None = None,
        min_position: int | None = None,
    ) -> Call[Predicted]:
        """Predict examples {"x", "id"}. An example with an id is kept until its label comes.

        explain: how many support vectors to return for each prediction, those that contribute most.
        probabilities: whether each result has the probabilities of all classes.
        min_position: position of the log that the state must have reached, as returned by learn.
        """
        body = given(examples=plain(examples), explain=explain, probabilities=probabilities)
        return Call(body, query=given(min_position=min_position))

    @Operation("POST", "/models/{model}/rank", role="reader", replicas=True).asked
    def rank(
        self,
        model: str,
        examples: Examples,
        *,
        n: int | None = None,
        strategy: Strategy = "active",
    ) -> Call[Ranked]:
        """Order examples {"id", "x"} by the value of their labels, the best n first; nothing is kept."""
        return Call(given(examples=plain(examples), n=n, strategy=strategy))

    @Operation("GET", "/models/{model}/suspects", role="reader").asked
    def suspects(self, model: str, *, n: int = 10) -> Call[Suspects]:
        """Return learned examples whose labels look wrong."""
        return Call(query={"n": n})

    @Operation("GET", "/models/{model}/examples/{example:path}", role="annotator").asked
    def example(self, model: str, example: str) -> Call[ShownExample]:
        """Return one example, learned or in the pool: its x and its label, as far as they are known."""
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
    ) -> Call[ListedExamples]:
        """Return a page of the learned examples, oldest first. `next` is the cursor of the following page.

        label: a label as it stands in `scores`.
        annotator: an annotator who gave a label.
        since, until: learned at or after `since`, and before `until`; a time without a zone is UTC.
        """
        query = {"from": _time(since), "to": _time(until), "label": label, "annotator": annotator, "cursor": cursor}
        return Call(query={**query, "n": n})

    @Operation("DELETE", "/models/{model}/examples/{example:path}", role="writer").asked
    def forget(self, model: str, example: str) -> Call[Changed]:
        """Forget an example. Returns a {"certificate"} when it is done, or a {"job"} that does it."""
        return Call(timeout_s=LONG_S)

    @Operation("PUT", "/models/{model}/examples/{example:path}", role="writer").asked
    def correct(self, model: str, example: str, y: Any) -> Call[Changed]:
        """Give a learned example another label. Returns a {"certificate"}, or a {"job"} that retrains the model."""
        return Call({"y": y}, timeout_s=LONG_S)


def _time(given: datetime | str | None) -> str | None:
    return given.isoformat() if isinstance(given, datetime) else given


LEARN_DEFAULT: Operation[..., None] = Operation("POST", "/learn", role="annotator", covers=DEFAULT, small=True)
PREDICT_DEFAULT: Operation[..., None] = Operation(
    "POST", "/predict", role="reader", covers=DEFAULT, small=True, replicas=True
)
"""The same on the model "default", for requests that name no model."""
