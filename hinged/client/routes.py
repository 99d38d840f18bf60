"""The methods of the clients: one for each operation that is declared with one, and some that take several requests.

They say nothing of how requests travel: each is an exchange. `Client` returns its answer, `AsyncClient` an awaitable of
it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from hinged.answers import Changed, Imported, JobState, Learned, Offered, Predicted
from hinged.client.asking import Asking
from hinged.client.exchange import Exchange, HingedError, ready, wait_for_change, wait_until_ready
from hinged.client.methods import route
from hinged.extras import needed
from hinged.operations import (
    ExampleOperations,
    LabelOperations,
    ModelOperations,
    ServerOperations,
    SnapshotOperations,
)
from hinged.operations.base import LONG_S, Call
from hinged.operations.values import ModelFile


class Routes(Asking, ModelOperations, ExampleOperations, LabelOperations, SnapshotOperations, ServerOperations):
    """One method a route. An example's x is a sequence of numbers, {"indices": ..., "values": ...}, or a mapping of
    named features, as the model has it; arrays will do. One example may stand for a list of one. In named features NaN,
    None and NaT are missing, and a moment is its text.
    """

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
        return self._ask_rows(ExampleOperations.learn.path_for(model=model), X, y, ids)

    @route
    def predict_rows(self, model: str, X: Any, ids: Sequence[str | None] | None = None) -> Exchange[Predicted]:
        """Predict rows of numbers, as `learn_rows` takes them. One with an id is kept until its label comes.

        Where many rows took several requests, the position is the newest state's.
        """
        return self._ask_rows(ExampleOperations.predict.path_for(model=model), X, None, ids)

    @route
    def offer_rows(
        self, model: str, X: Any, ids: Sequence[str], shows: Sequence[Any] | None = None
    ) -> Exchange[Offered]:
        """Put rows of numbers into the model's pool; shows: what a person sees instead of each, None for x."""
        return self._ask_rows(LabelOperations.offer.path_for(model=model), X, None, ids, shows)

    @route
    def wait(self, answer: Mapping[str, Any], timeout_s: float = LONG_S) -> Exchange[Changed | JobState]:
        """Once the change that was answered so is made: its job, or the answer itself where there is none.

        HingedError with the code `job_failed` says why it was not made, with `not_ready` that it takes longer.
        """
        return wait_for_change(self.url, answer, self.tries_max, timeout_s)

    @route
    def ready(self) -> Exchange[bool]:
        """Whether the server takes requests now; raises `unreachable` where nothing listens."""
        return ready(self.url)

    @route
    def wait_until_ready(self, timeout_s: float = 120.0) -> Exchange[bool]:
        """Return as soon as the server is ready, whether it listens already or not."""
        return wait_until_ready(self.url, timeout_s)

    @route
    def upload(self, model: str, estimator: ModelFile) -> Exchange[Imported]:
        """A new model of a fitted estimator of hinged.sklearn, as `import_model` makes one of a file.

        The way back is `hinged.sklearn.load(client.export_model(model))`.
        """
        if not hasattr(estimator, "to_model_file"):
            raise TypeError(f"upload takes a fitted estimator of hinged.sklearn, got {type(estimator).__name__}")
        return self._exchange(SnapshotOperations.import_model.call(model, estimator.to_model_file()))

    def _ask_rows(
        self,
        path: str,
        X: Any,
        y: Sequence[Any] | None,
        ids: Sequence[str | None] | None,
        shows: Sequence[Any] | None = None,
    ) -> Exchange[Any]:
        """Send rows, in order, in as many requests as the server takes them in; their answers as one.

        A request that is refused has done nothing, so where it was too large fewer rows are sent.
        """
        with needed("files", "a batch of rows"):
            from hinged.client.batch import MEDIA_TYPE, ROWS_MAX, RowsSent  # noqa: PLC0415  needs NumPy

        batch, answers, begin, rows_max = RowsSent(X, y, ids, shows), list[dict[str, Any]](), 0, ROWS_MAX
        while begin < len(batch) or not answers:
            end = batch.end(begin, rows_max) if len(batch) else 0
            body = batch.packed(begin, end)
            call: Call[Any] = Call(body, media_type=MEDIA_TYPE, method="POST", path=path)
            try:
                answers.append((yield from self._exchange(call)))
            except HingedError as error:
                rows_max = _fewer(error, end - begin)
                if not rows_max:
                    raise (_behind(error, begin) if begin else error) from None
            else:
                begin = end
        return _as_one(answers)


def _fewer(error: HingedError, rows: int) -> int:
    """So many rows may be taken where so many were refused; 0 where that was not because they were too many."""
    if error.status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        return rows // 2
    most = error.details.get("examples_max")
    return most if isinstance(most, int) and 0 < most < rows else 0


def _behind(error: HingedError, begin: int) -> HingedError:
    """Why the rows from there on were refused; the first of them is examples[0] to the server."""
    index = error.details.get("index")
    moved = {"index": begin + index} if isinstance(index, int) else {}
    message = f"{error.message} (examples counted from row {begin} on; those before it are through)"
    details = {**error.details, **moved, "rows_done": begin}
    return HingedError(message, code=error.code, status=error.status, details=details)


def _as_one(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The answers to parts of a batch as the answer to all of it: of the last state, with all results."""
    if len(answers) == 1:
        return answers[0]
    found = dict(answers[-1])
    if "results" in found:
        found["results"] = [result for answer in answers for result in answer["results"]]
    return found | {name: sum(answer[name] for answer in answers) for name in ("added", "dropped") if name in found}
