"""The methods of the clients: one for each declared operation, and some that need several requests.

Each method is an exchange without I/O. `Client` returns the answer, `AsyncClient` an awaitable of the answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import TYPE_CHECKING, Any, Concatenate

import httpx

from hinged.answers import Changed, Imported, JobState, Learned, ListedExample, Offered, Predicted
from hinged.client.exchange import Exchange, HingedError, Send, exchange, ready, wait_for_change, wait_until_ready
from hinged.extras import needed
from hinged.operations import (
    AlertOperations,
    ExampleOperations,
    HookOperations,
    LabelOperations,
    ModelOperations,
    ReceiptOperations,
    ServerOperations,
    SnapshotOperations,
)
from hinged.operations.base import LONG_S, ROWS_TYPE, Answer, Arguments, Asker, Call, Method
from hinged.operations.values import ModelFile

if TYPE_CHECKING:
    from datetime import datetime

    from pandas import DataFrame

PAGE_EXAMPLES = 1000
"""Number of examples in each page of a listing, the most that a server returns at once."""


# A proxy from the environment cannot reach the loopback names of this machine.
UNPROXIED = ("all://localhost", "all://127.0.0.1", "all://[::1]")


def route(steps: Callable[Concatenate[Any, Arguments], Exchange[Answer]]) -> Method[Arguments, Answer]:
    """Make a method of both clients from a function that yields the steps of an exchange."""

    @wraps(steps)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        return self._run(steps(self, *args, **named))

    return Method(method)


class Routes(
    Asker,
    ModelOperations,
    ExampleOperations,
    LabelOperations,
    SnapshotOperations,
    AlertOperations,
    HookOperations,
    ReceiptOperations,
    ServerOperations,
):
    """The methods of the clients, one for each route.

    The x of an example is a sequence of numbers, {"indices": ..., "values": ...}, or a mapping of named features,
    depending on the model. Arrays are accepted. A single example may be passed instead of a list. In named features,
    NaN, None and NaT are missing values; dates and times are sent as ISO 8601 text.
    """

    def __init__(self, url: str, key: str | None, timeout_s: float, tries_max: int) -> None:
        self.url = checked_url(url).rstrip("/")
        if not tries_max >= 1:
            raise ValueError(f"tries_max must be >= 1, got {tries_max}")
        self.tries_max = tries_max
        self.owners: dict[str, str] = {}
        """For each model, the server that last answered for it. Used if several servers share a store. Empty if this
        client does not trust the owner; then the first server passes requests on.
        """
        self._authorization, self._timeout_s = authorization(key), timeout_s
        # A client of plain HTTP needs no certificates, whose reading takes 20 ms and 2 MB, until an owner has TLS.
        self._certificates = None if self.url.startswith("https:") else SSLContext(PROTOCOL_TLS_CLIENT)
        self._options: dict[str, Any] = {
            "headers": self._authorization,
            "timeout": timeout_s,
            "mounts": dict.fromkeys(UNPROXIED),
            "follow_redirects": False,
            "verify": self._certificates or True,
        }
        """The arguments of httpx's client."""

    def _ask(self, call: Call[Any]) -> Any:
        """Return the answer to a call, or an awaitable of the answer."""
        return self._run(self._exchange(call))

    def _run(self, steps: Exchange[Any]) -> Any:
        """Return the result of an exchange, or an awaitable of the result."""
        raise NotImplementedError

    def _request(self, step: Send) -> dict[str, Any]:
        """Return a step as the arguments of httpx's `request`."""
        if self._certificates is not None and step.url.startswith("https:"):
            self._certificates.load_default_certs()
            self._certificates = None
        own = {} if step.timeout_s is None else {"timeout": step.timeout_s}
        headers = dict(step.headers) if step.content is None else {"content-type": step.media_type, **step.headers}
        return {
            "method": step.method,
            "url": step.url,
            "content": step.content,
            "params": step.params or None,
            "headers": headers,
            **own,
        }

    def _exchange(self, call: Call[Any]) -> Exchange[Any]:
        if call.once:
            return exchange(self.url, call, tries_max=1)
        return exchange(self.url, call, self.tries_max, self.owners)

    @route
    def learn_rows(
        self,
        model: str,
        X: Any,
        y: Sequence[Any],
        ids: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        *,
        progress: Callable[[int], object] | None = None,
    ) -> Exchange[Learned]:
        """Learn rows of numbers. The client sends the rows as bytes, which the server reads much faster than JSON.

        The client sends any number of rows, in order, in as many requests as necessary. If the server refuses a later
        request, `details["rows_done"]` of the HingedError says how many rows are learned. If you give your own ids, you
        can repeat the call, and no row is learned twice.

        Parameters
        ----------
        model : str
        X : array or SciPy sparse matrix, shape (m, dim)
        y : m labels
        ids : m strings; random ids if None
        weights : m numbers > 0, which multiply C for their examples; 1 if None
        progress : called after each request, with the number of rows that are learned so far
        """
        if ids is None:
            name = uuid.uuid4().hex
            ids = [f"{name}-{row}" for row in range(len(y))]
        path = ExampleOperations.learn.path_for(model=model)
        return self._ask_rows(path, X, y, ids, weights=weights, progress=progress)

    @route
    def predict_rows(self, model: str, X: Any, ids: Sequence[str | None] | None = None) -> Exchange[Predicted]:
        """Predict rows of numbers. The client sends the rows as bytes. The server keeps a row with an id until its
        label comes.

        If several requests are necessary, the answer contains the position of the last request.
        """
        return self._ask_rows(ExampleOperations.predict.path_for(model=model), X, None, ids)

    @route
    def offer_rows(
        self, model: str, X: Any, ids: Sequence[str], shows: Sequence[Any] | None = None
    ) -> Exchange[Offered]:
        """Add rows of numbers to the model's pool. shows: m values that people see instead of x, None for x itself."""
        return self._ask_rows(LabelOperations.offer.path_for(model=model), X, None, ids, shows)

    @route
    def dataframe(
        self,
        model: str,
        *,
        label: str | None = None,
        annotator: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> Exchange[DataFrame]:
        """Return the learned examples as a data frame of pandas, oldest first.

        Its columns are `id`, `label` (the current label), `prediction`, `source`, `answers`, `corrected`, `at`,
        `weight`, and the parts of x: `x.0`, `x.1`, ... or `x.` and a name. A text is one column, `x`.

        Parameters
        ----------
        model : str
        label, annotator, since, until : optional
            Select examples, as in `examples`.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> client.dataframe("pumps")[["id", "x.0", "label"]]
        """
        with needed("pandas", "a data frame"):
            from hinged.client.dataframe import frame_of  # noqa: PLC0415  needs pandas

        wanted: Any = {"label": label, "annotator": annotator, "since": since, "until": until}
        examples, cursor = list[ListedExample](), None
        while True:
            call = ExampleOperations.examples.call(model, n=PAGE_EXAMPLES, cursor=cursor, x=True, **wanted)
            page = yield from self._exchange(call)
            examples += page["examples"]
            cursor = page["next"]
            if cursor is None:
                return frame_of(examples)

    @route
    def wait(self, answer: Mapping[str, Any], timeout_s: float = LONG_S) -> Exchange[Changed | JobState]:
        """Wait until the change that an answer announced is done. Return the change's job, or the answer if the answer
        names no job.

        A HingedError with the code `job_failed` says why the change failed. The code `not_ready` means that the change
        takes longer than the timeout.
        """
        return wait_for_change(self.url, answer, self.tries_max, timeout_s)

    @route
    def ready(self) -> Exchange[bool]:
        """Return whether the server accepts requests now. Raise `unreachable` if nothing listens."""
        return ready(self.url)

    @route
    def wait_until_ready(self, timeout_s: float = 120.0) -> Exchange[bool]:
        """Wait until the server is ready, even if nothing listens yet. Return True."""
        return wait_until_ready(self.url, timeout_s)

    @route
    def upload(self, model: str, estimator: ModelFile) -> Exchange[Imported]:
        """Make a new model from a fitted estimator of hinged.sklearn.

        To get an estimator back, call `hinged.sklearn.load(client.export_model(model))`.
        """
        if not hasattr(estimator, "to_model_file"):
            kind = type(estimator).__name__
            raise TypeError(
                f"upload takes a fitted estimator of hinged.sklearn, of a pipeline its last step, got {kind}"
            )
        return self._exchange(SnapshotOperations.import_model.call(model, estimator.to_model_file()))

    def _ask_rows(
        self,
        path: str,
        X: Any,
        y: Sequence[Any] | None,
        ids: Sequence[str | None] | None,
        shows: Sequence[Any] | None = None,
        weights: Sequence[float] | None = None,
        *,
        progress: Callable[[int], object] | None = None,
    ) -> Exchange[Any]:
        """Send rows in order, in as many requests as necessary, and return their answers as one answer.

        A refused request changes nothing. If a request is refused for its size, the client therefore tries again with
        fewer rows.
        """
        with needed("files", "a batch of rows"):
            from hinged.client.batch import ROWS_MAX, RowsSent  # noqa: PLC0415  needs NumPy

        batch, answers, begin, rows_max = RowsSent(X, y, ids, shows, weights), list[dict[str, Any]](), 0, ROWS_MAX
        while begin < len(batch) or not answers:
            end = batch.end(begin, rows_max) if len(batch) else 0
            body = batch.packed(begin, end)
            call: Call[Any] = Call(body, media_type=ROWS_TYPE, method="POST", path=path)
            try:
                answers.append((yield from self._exchange(call)))
            except HingedError as error:
                rows_max = _fewer(error, end - begin)
                if not rows_max:
                    raise (_behind(error, begin) if begin else error) from None
            else:
                begin = end
                if progress is not None:
                    progress(begin)
        return _as_one(answers)


def _fewer(error: HingedError, rows: int) -> int:
    """Return the number of rows to try after the server refused this many. Return 0 if the server refused the rows for
    another reason.
    """
    if error.status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        return rows // 2
    most = error.details.get("examples_max")
    return most if isinstance(most, int) and 0 < most < rows else 0


def _behind(error: HingedError, begin: int) -> HingedError:
    """Return the server's refusal of the rows from `begin` on, with corrected indices: the server counts from the first
    of these rows.
    """
    index = error.details.get("index")
    moved = {"index": begin + index} if isinstance(index, int) else {}
    message = f"{error.message} (examples counted from row {begin} on; those before it are through)"
    details = {**error.details, **moved, "rows_done": begin}
    return HingedError(message, code=error.code, status=error.status, details=details)


def _as_one(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the answers to the parts of a batch: take the last position, and all results."""
    if len(answers) == 1:
        return answers[0]
    found = dict(answers[-1])
    if "results" in found:
        found["results"] = [result for answer in answers for result in answer["results"]]
    return found | {name: sum(answer[name] for answer in answers) for name in ("added", "dropped") if name in found}


def checked_url(url: str) -> str:
    """Return a server's address. Raise ValueError if it is invalid or contains a password."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is not a URL: {error}") from error
    if parsed.userinfo:  # not shown, because messages may get into logs
        raise ValueError("a URL must not hold a user or a password; pass a key as key=")
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError(f"url must be like http://127.0.0.1:8000, got {url!r}")
    return url


def authorization(key: str | None) -> dict[str, str]:
    """Return the header for a key. Raise ValueError, which does not show the key, if the key is invalid."""
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable() and key and " " not in key):
        raise ValueError("key must be printable ASCII without spaces, as `hinged keys create` printed it")
    return {"authorization": f"Bearer {key}"}
