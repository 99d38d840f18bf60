"""Examples: learned, predicted, ranked, shown, forgotten."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hinged.client.exchange import Exchange
from hinged.client.methods import route
from hinged.client.routes.asking import FINISH_TIMEOUT_S, Asking, Strategy
from hinged.client.routes.paths import path_of, path_of_example
from hinged.client.shapes import Changed, Learned, ListedExamples, Predicted, Ranked, ShownExample, Suspects
from hinged.client.values import Examples, given, plain, with_ids

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExampleRoutes(Asking):
    """What is asked of examples."""

    @route
    def learn(self, model: str, examples: Examples) -> Exchange[Learned]:
        """Learn examples {"x", "y", "id"}, in order; one without an id is given a random one.

        An example that the model knows, from its pool or from a prediction with an id, needs no x: {"id", "y"}, with
        the "lease" of the query that asked for it. Each result holds the prediction made right before that example
        was learned.
        """
        return self._ask("POST", f"{path_of(model)}/learn", {"examples": with_ids(examples)})

    @route
    def learn_rows(self, model: str, X: Any, y: Sequence[Any], ids: Sequence[str] | None = None) -> Exchange[Learned]:
        """The same for rows of numbers, as bytes: the server reads them in a fraction of the time.

        Any number of rows: they are sent in order, in as many requests as the server takes them in. Where a later one
        is refused, `details["rows_done"]` of the HingedError tells how many rows before it are learned. With ids of
        your own the same call again learns none of them twice.

        X  (m, dim): an array, or a SciPy sparse matrix
        y  m labels
        ids  m ids; random ones if none are given
        """
        if ids is None:
            name = uuid.uuid4().hex
            ids = [f"{name}-{row}" for row in range(len(y))]
        return self._ask_rows(f"{path_of(model)}/learn", X, y, ids)

    @route
    def predict(
        self,
        model: str,
        examples: Examples,
        *,
        explain: int | None = None,
        probabilities: bool | None = None,
        min_position: int | None = None,
    ) -> Exchange[Predicted]:
        """Predict examples {"x", "id"}. One with an id is kept until its label comes.

        explain        so many support vectors that count most for each prediction
        probabilities  whether each result is to have those of all classes
        min_position   position that the state must have reached, as an answer to learn told it
        """
        body = given(examples=plain(examples), explain=explain, probabilities=probabilities)
        return self._ask("POST", f"{path_of(model)}/predict", body, query=given(min_position=min_position))

    @route
    def predict_rows(self, model: str, X: Any, ids: Sequence[str | None] | None = None) -> Exchange[Predicted]:
        """Predict rows of numbers, as `learn_rows` takes them. One with an id is kept until its label comes.

        The position is that of the newest state, where many rows took several requests.
        """
        return self._ask_rows(f"{path_of(model)}/predict", X, None, ids)

    @route
    def rank(
        self,
        model: str,
        examples: Examples,
        *,
        n: int | None = None,
        strategy: Strategy = "active",
    ) -> Exchange[Ranked]:
        """Order examples {"id", "x"} by what their labels are worth, the best n first; nothing is kept."""
        return self._ask("POST", f"{path_of(model)}/rank", given(examples=plain(examples), n=n, strategy=strategy))

    @route
    def suspects(self, model: str, *, n: int = 10) -> Exchange[Suspects]:
        """Learned examples whose labels look wrong."""
        return self._ask("GET", f"{path_of(model)}/suspects", query={"n": n})

    @route
    def example(self, model: str, example: str) -> Exchange[ShownExample]:
        """One example, learned or in the pool: its x and its label, as far as they are known."""
        return self._ask("GET", path_of_example(model, example))

    @route
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
    ) -> Exchange[ListedExamples]:
        """A page of what the model has learned, oldest first. `next` is the cursor of the page behind it.

        label  as it stands in `scores`
        annotator  one who answered
        since, until  learned then or later, and before; without a zone in UTC
        """
        query = {"from": _time(since), "to": _time(until), "label": label, "annotator": annotator, "cursor": cursor}
        return self._ask("GET", f"{path_of(model)}/examples", query={**query, "n": n})

    @route
    def forget(self, model: str, example: str) -> Exchange[Changed]:
        """Forget an example: {"certificate"} when that is done, or {"job"} where it takes its time."""
        return self._ask("DELETE", path_of_example(model, example), timeout_s=FINISH_TIMEOUT_S)

    @route
    def correct(self, model: str, example: str, y: Any) -> Exchange[Changed]:
        """Give a learned example another label: {"certificate"}, or {"job"} while the model is taught anew."""
        return self._ask("PUT", path_of_example(model, example), {"y": y}, timeout_s=FINISH_TIMEOUT_S)


def _time(given: datetime | str | None) -> str | None:
    return given.isoformat() if isinstance(given, datetime) else given
