"""Examples: learned, predicted, ranked, shown, forgotten."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hinged.answers import Changed, Learned, ListedExamples, Predicted, Ranked, ShownExample, Suspects
from hinged.operations.base import DEFAULT, LONG_S, Call, Operation, Strategy
from hinged.operations.values import Examples, given, plain, with_ids


class ExampleOperations:
    """What is asked of examples."""

    # examples that bring an x need a writer, see `check_examples`
    @Operation("POST", "/models/{model}/learn", role="annotator", frame="learn", small=True).asked
    def learn(self, model: str, examples: Examples) -> Call[Learned]:
        """Learn examples {"x", "y", "id"}, in order; one without an id is given a random one.

        An example that the model knows, from its pool or from a prediction with an id, needs no x: {"id", "y"}, with
        the "lease" of the query that asked for it. Each result holds the prediction made right before that example
        was learned.
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
        """Predict examples {"x", "id"}. One with an id is kept until its label comes.

        explain        so many support vectors that count most for each prediction
        probabilities  whether each result is to have those of all classes
        min_position   position that the state must have reached, as an answer to learn told it
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
        """Order examples {"id", "x"} by what their labels are worth, the best n first; nothing is kept."""
        return Call(given(examples=plain(examples), n=n, strategy=strategy))

    @Operation("GET", "/models/{model}/suspects", role="reader").asked
    def suspects(self, model: str, *, n: int = 10) -> Call[Suspects]:
        """Learned examples whose labels look wrong."""
        return Call(query={"n": n})

    @Operation("GET", "/models/{model}/examples/{example:path}", role="annotator").asked
    def example(self, model: str, example: str) -> Call[ShownExample]:
        """One example, learned or in the pool: its x and its label, as far as they are known."""
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
        """A page of what the model has learned, oldest first. `next` is the cursor of the page behind it.

        label  as it stands in `scores`
        annotator  one who answered
        since, until  learned then or later, and before; without a zone in UTC
        """
        query = {"from": _time(since), "to": _time(until), "label": label, "annotator": annotator, "cursor": cursor}
        return Call(query={**query, "n": n})

    @Operation("DELETE", "/models/{model}/examples/{example:path}", role="writer").asked
    def forget(self, model: str, example: str) -> Call[Changed]:
        """Forget an example: {"certificate"} when that is done, or {"job"} where it takes its time."""
        return Call(timeout_s=LONG_S)

    @Operation("PUT", "/models/{model}/examples/{example:path}", role="writer").asked
    def correct(self, model: str, example: str, y: Any) -> Call[Changed]:
        """Give a learned example another label: {"certificate"}, or {"job"} while the model is taught anew."""
        return Call({"y": y}, timeout_s=LONG_S)


def _time(given: datetime | str | None) -> str | None:
    return given.isoformat() if isinstance(given, datetime) else given


LEARN_DEFAULT: Operation[..., None] = Operation("POST", "/learn", role="annotator", covers=DEFAULT, small=True)
PREDICT_DEFAULT: Operation[..., None] = Operation(
    "POST", "/predict", role="reader", covers=DEFAULT, small=True, replicas=True
)
"""The same on the model "default", for who names none."""
