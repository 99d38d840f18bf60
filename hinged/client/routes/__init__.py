"""The routes of the server as methods, which say nothing of how requests travel.

Each says what is to be done, an exchange, and of which type its answer is. `Client` returns that answer, `AsyncClient`
an awaitable of it: `route` makes both of one method.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import httpx

from hinged.client.exchange import (
    Call,
    Exchange,
    exchange,
    ready,
    wait_for_change,
    wait_until_ready,
)
from hinged.client.methods import route
from hinged.client.shapes import (
    Answers,
    Candidates,
    Certified,
    Challengers,
    Changed,
    Created,
    Deleted,
    Described,
    Finished,
    History,
    Imported,
    JobState,
    KeptSnapshot,
    KeyShown,
    Learned,
    LeftOut,
    ListedExamples,
    Offered,
    Overview,
    Peeked,
    Predicted,
    Queries,
    Ranked,
    Released,
    Renewed,
    Retired,
    RolledBack,
    SetAside,
    ShownExample,
    Skipped,
    Summary,
    Suspects,
    Ticket,
)
from hinged.client.values import Examples, ModelFile, several

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Finishing works until the solver has converged, so the time-out of a common request says nothing about it.
FINISH_TIMEOUT_S = 3600.0

Strategy = Literal["active", "random", "gradient", "autoactive"]


class Routes:
    """One method a route. An example's x is a sequence of numbers, {"indices": ..., "values": ...}, or a mapping of
    named features, as the model has it; arrays will do. One example may stand for a list of one. In named features NaN,
    None and NaT are missing, and a moment is its text.
    """

    def __init__(self, url: str, tries_max: int) -> None:
        self.url = checked_url(url).rstrip("/")
        if not tries_max >= 1:
            raise ValueError(f"tries_max must be >= 1, got {tries_max}")
        self.tries_max = tries_max

    def _run(self, steps: Exchange[Any]) -> Any:
        """What an exchange returns, or an awaitable of it."""
        raise NotImplementedError

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any) -> Exchange[Any]:
        return exchange(self.url, Call(method, path, body, **more), self.tries_max)

    # -- models

    @route
    def create_model(self, /, model: str, **configuration: Any) -> Exchange[Created]:
        """Create a model; the same configuration again changes nothing, another one is a conflict (409)."""
        return self._ask("PUT", path_of(model), configuration)

    @route
    def models(self) -> Exchange[list[Summary]]:
        """All models of the server, as it lists them."""
        call = Call("GET", "/models", part="models")
        return exchange(self.url, call, self.tries_max)

    @route
    def overview(self) -> Exchange[Overview]:
        """All models in a few figures, waiting for none of them."""
        return self._ask("GET", "/overview")

    @route
    def history(self, model: str, *, after: int | None = None) -> Exchange[History]:
        """Learning curves of a model and its challengers, behind a position of the log, and what happened."""
        return self._ask("GET", f"{path_of(model)}/history", query={"from": after})

    @route
    def model(self, model: str) -> Exchange[Described]:
        """Configuration, position and figures of one model."""
        return self._ask("GET", path_of(model))

    @route
    def delete_model(self, model: str) -> Exchange[Deleted]:
        """Delete a model and its log."""
        return self._ask("DELETE", path_of(model), gone={"model": model, "deleted": True})

    # -- examples

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

        X  (m, dim): an array, or a SciPy sparse matrix
        y  m labels
        ids  m ids; random ones if none are given
        """
        if ids is None:
            name = uuid.uuid4().hex
            ids = [f"{name}-{row}" for row in range(len(y))]
        return self._pack(f"{path_of(model)}/learn", X, y, ids)

    @route
    def predict_rows(self, model: str, X: Any, ids: Sequence[str | None] | None = None) -> Exchange[Predicted]:
        """Predict rows of numbers, as `learn_rows` takes them. One with an id is kept until its label comes."""
        return self._pack(f"{path_of(model)}/predict", X, None, ids)

    @route
    def offer_rows(self, model: str, X: Any, ids: Sequence[str]) -> Exchange[Offered]:
        """Put rows of numbers into the model's pool."""
        return self._pack(f"{path_of(model)}/pool", X, None, ids)

    def _pack(self, path: str, X: Any, y: Sequence[Any] | None, ids: Sequence[str | None] | None) -> Exchange[Any]:
        from hinged.client.batch import MEDIA_TYPE, pack  # noqa: PLC0415  who sends no rows needs no NumPy

        call = Call("POST", path, pack(X, y, ids), media_type=MEDIA_TYPE)
        return exchange(self.url, call, self.tries_max)

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
        body = _given(examples=_plain(examples), explain=explain, probabilities=probabilities)
        return self._ask("POST", f"{path_of(model)}/predict", body, query=_given(min_position=min_position))

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
        return self._ask("POST", f"{path_of(model)}/rank", _given(examples=_plain(examples), n=n, strategy=strategy))

    @route
    def suspects(self, model: str, *, n: int = 10) -> Exchange[Suspects]:
        """Learned examples whose labels look wrong."""
        return self._ask("GET", f"{path_of(model)}/suspects", query={"n": n})

    @route
    def finish(
        self, model: str, *, epochs: int | None = None, timeout_s: float = FINISH_TIMEOUT_S
    ) -> Exchange[Finished]:
        """Let the solver work on what it has learned until it has converged, or for so many epochs."""
        body = None if epochs is None else {"epochs": epochs}
        return self._ask("POST", f"{path_of(model)}/finish", body, timeout_s=timeout_s)

    # -- labelling

    @route
    def offer(self, model: str, examples: Examples) -> Exchange[Offered]:
        """Put unlabelled examples {"id", "x"} into the model's pool; `show` is what a person sees in the place of x."""
        return self._ask("POST", f"{path_of(model)}/pool", {"examples": _plain(examples)})

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
            _given(
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
    def example(self, model: str, example: str) -> Exchange[ShownExample]:
        """One example, learned or in the pool: its x and its label, as far as they are known."""
        return self._ask("GET", _example(model, example))

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
    def heartbeat(self, model: str, lease: str, *, lease_s: float | None = None) -> Exchange[Renewed]:
        """Keep a lease for longer."""
        return self._ask("POST", _lease(model, lease, "heartbeat"), _given(lease_s=lease_s))

    @route
    def release(self, model: str, lease: str) -> Exchange[Released]:
        """Give a leased example back to the pool."""
        return self._ask("POST", _lease(model, lease, "release"), {}, gone={"released": True})

    @route
    def skip(self, model: str, lease: str, *, whom: Literal["me", "all"] = "me") -> Exchange[Skipped]:
        """Never ask this annotator, or anybody, for this example again."""
        return self._ask("POST", _lease(model, lease, "skip"), {"for": whom}, gone={"skipped": whom})

    @route
    def unskip(self, model: str, lease: str) -> Exchange[Renewed]:
        """Take a skip back: the lease is open again."""
        return self._ask("DELETE", _lease(model, lease, "skip"))

    # -- snapshots

    @route
    def snapshot(self, model: str) -> Exchange[KeptSnapshot]:
        """Let the server keep a snapshot now; the answer comes when it is durable."""
        return self._ask("POST", f"{path_of(model)}/snapshot", timeout_s=FINISH_TIMEOUT_S)

    @route
    def export_model(self, model: str, *, as_of: int | None = None) -> Exchange[bytes]:
        """The model as the bytes of a file, or as it was at a position of its log."""
        call = Call("GET", f"{path_of(model)}/export", query={"as_of": as_of}, binary=True, timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, self.tries_max)

    @route
    def import_model(self, model: str, file: bytes) -> Exchange[Imported]:
        """A new model from the bytes of such a file; a conflict (409) if there is one of this name.

        Tried once: a second try could not tell its own model from another's.
        """
        call = Call("POST", f"{path_of(model)}/import", bytes(file), timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, tries_max=1)

    @route
    def upload(self, model: str, estimator: ModelFile) -> Exchange[Imported]:
        """A new model of a fitted estimator of hinged.sklearn, as `import_model` makes one of a file.

        The way back is `hinged.sklearn.load(client.export_model(model))`.
        """
        if not hasattr(estimator, "to_model_file"):
            raise TypeError(f"upload takes a fitted estimator of hinged.sklearn, got {type(estimator).__name__}")
        call = Call("POST", f"{path_of(model)}/import", estimator.to_model_file(), timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, tries_max=1)

    @route
    def rollback(self, model: str, position: int) -> Exchange[RolledBack]:
        """Make the model what it was at a position of its log.

        Tried once: a second try could undo what came in between.
        """
        call = Call("POST", f"{path_of(model)}/rollback", {"position": position}, timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, tries_max=1)

    @route
    def skip_event(self, model: str, position: int | None = None) -> Exchange[SetAside]:
        """Pass over the event that the model could not take in, and before which it stands.

        position: of that event; None for whichever it is. A second try is safe where the position is given.
        """
        body = {} if position is None else {"position": position}
        call = Call("POST", f"{path_of(model)}/skip", body, timeout_s=FINISH_TIMEOUT_S)
        return exchange(self.url, call, tries_max=1)

    # -- changes

    @route
    def forget(self, model: str, example: str) -> Exchange[Changed]:
        """Forget an example: {"certificate"} when that is done, or {"job"} where it takes its time."""
        return self._ask("DELETE", _example(model, example), timeout_s=FINISH_TIMEOUT_S)

    @route
    def correct(self, model: str, example: str, y: Any) -> Exchange[Changed]:
        """Give a learned example another label: {"certificate"}, or {"job"} while the model is taught anew."""
        return self._ask("PUT", _example(model, example), {"y": y}, timeout_s=FINISH_TIMEOUT_S)

    @route
    def change_model(self, /, model: str, **changes: Any) -> Exchange[Changed]:
        """Change parts of a configuration: {"certificate"}, or {"job"} while the model is taught anew."""
        return self._ask("PATCH", path_of(model), changes, timeout_s=FINISH_TIMEOUT_S)

    @route
    def job(self, job: str) -> Exchange[JobState]:
        """What became of a job, as the answer that began it names it: "/jobs/..."."""
        return self._ask("GET", job if job.startswith("/jobs/") else f"/jobs/{quote(job, safe='')}")

    @route
    def wait(self, answer: Mapping[str, Any], timeout_s: float = FINISH_TIMEOUT_S) -> Exchange[Changed | JobState]:
        """Once the change that was answered so is made: its job, or the answer itself where there is none.

        HingedError with the code `job_failed` says why it was not made, with `not_ready` that it takes longer.
        """
        return wait_for_change(self.url, answer, self.tries_max, timeout_s)

    @route
    def certificate(self, model: str) -> Exchange[Certified]:
        """How good the solution is: gap, violation of the optimality conditions, what the budget cost."""
        return self._ask("GET", f"{path_of(model)}/certificate")

    @route
    def leave_one_out(self, model: str) -> Exchange[LeftOut]:
        """The exact solver's leave-one-out error."""
        return self._ask("GET", f"{path_of(model)}/loo", timeout_s=FINISH_TIMEOUT_S)

    @route
    def shadows(self, model: str) -> Exchange[Challengers]:
        """The model and its challengers, each with the metrics of its own predictions."""
        return self._ask("GET", f"{path_of(model)}/shadows")

    @route
    def challenge(self, /, model: str, shadow: str, **changes: Any) -> Exchange[Changed]:
        """A challenger that learns beside the model, of its configuration with these changes."""
        return self._ask("PUT", _shadow(model, shadow), changes)

    @route
    def retire(self, model: str, shadow: str) -> Exchange[Retired]:
        """Give a challenger up."""
        return self._ask("DELETE", _shadow(model, shadow), gone={"shadow": shadow, "deleted": True})

    @route
    def promote(self, model: str, shadow: str) -> Exchange[Changed]:
        """Let a challenger take the model's place.

        Tried once: a second try would find it gone.
        """
        call = Call("POST", f"{_shadow(model, shadow)}/promote")
        return exchange(self.url, call, tries_max=1)

    # -- the server

    @route
    def key(self) -> Exchange[KeyShown]:
        """Who asks: the name of the key, its role, its models."""
        return self._ask("GET", "/key")

    @route
    def ticket(self) -> Exchange[Ticket]:
        """A ticket for one event stream or one WebSocket in a browser."""
        return self._ask("POST", "/tickets")

    @route
    def metrics(self) -> Exchange[str]:
        """The server's figures in Prometheus' text format."""
        return exchange(self.url, Call("GET", "/metrics", text=True), self.tries_max)

    @route
    def ready(self) -> Exchange[bool]:
        """Whether the server takes requests now; raises `unreachable` where nothing listens."""
        return ready(self.url)

    @route
    def wait_until_ready(self, timeout_s: float = 120.0) -> Exchange[bool]:
        """Return as soon as the server is ready, whether it listens already or not."""
        return wait_until_ready(self.url, timeout_s)


def checked_url(url: str) -> str:
    """A server's address; ValueError if it can be none, or holds a password."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is no URL: {error}") from error
    if parsed.userinfo:  # not shown: URLs end up in messages and logs
        raise ValueError("a URL must hold no user or password; give a key as key=")
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError(f"url must be like http://127.0.0.1:8000, got {url!r}")
    return url


def authorization(key: str | None) -> dict[str, str]:
    """The header of a key; ValueError, which does not show it, if it can be none."""
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable() and key and " " not in key):
        raise ValueError("key must be printable ASCII without spaces, as `hinged keys create` printed it")
    return {"authorization": f"Bearer {key}"}


def path_of(model: str) -> str:
    """The path of a model."""
    return f"/models/{quote(model, safe='')}"


def _example(model: str, example: str) -> str:
    return f"{path_of(model)}/examples/{quote(example, safe='')}"


def _shadow(model: str, shadow: str) -> str:
    return f"{path_of(model)}/shadows/{quote(shadow, safe='')}"


def _time(given: datetime | str | None) -> str | None:
    return given.isoformat() if isinstance(given, datetime) else given


def _lease(model: str, lease: str, action: str) -> str:
    return f"{path_of(model)}/queries/{quote(lease, safe='')}/{action}"


def _given(**parts: Any) -> dict[str, Any]:
    """Those parts of a body that are not left to the server's default."""
    return {name: value for name, value in parts.items() if value is not None}


def _plain(examples: Examples) -> list[dict[str, Any]]:
    return [dict(example) for example in several(examples)]


def with_ids(examples: Examples) -> list[dict[str, Any]]:
    """Examples to learn."""
    return [with_id(example) for example in several(examples)]


def with_id(example: Mapping[str, Any]) -> dict[str, Any]:
    """An example to learn with an id, so that it may be sent again."""
    # Without an x the id is what tells the example: there is none to invent.
    if example.get("id") is None and "x" in example:
        return {**example, "id": uuid.uuid4().hex}
    return dict(example)
