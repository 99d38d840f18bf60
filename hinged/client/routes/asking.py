"""How the methods ask: what an address and a key must be, and a request as an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import httpx

from hinged.client.exchange import Call, Exchange, HingedError, exchange
from hinged.extras import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Finishing works until the solver has converged, so the time-out of a common request says nothing about it.
FINISH_TIMEOUT_S = 3600.0

Strategy = Literal["active", "random", "gradient", "autoactive"]


class Asking:
    """What all methods stand on: an address, and requests to it as exchanges."""

    def __init__(self, url: str, tries_max: int) -> None:
        self.url = checked_url(url).rstrip("/")
        if not tries_max >= 1:
            raise ValueError(f"tries_max must be >= 1, got {tries_max}")
        self.tries_max = tries_max
        self.owners: dict[str, str] = {}
        """Where several servers share a store, the one that answered for a model last, by its name."""

    def _run(self, steps: Exchange[Any]) -> Any:
        """What an exchange returns, or an awaitable of it."""
        raise NotImplementedError

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any) -> Exchange[Any]:
        return exchange(self.url, Call(method, path, body, **more), self.tries_max, self.owners)

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
            call = Call("POST", path, batch.packed(begin, end), media_type=MEDIA_TYPE)
            try:
                answers.append((yield from exchange(self.url, call, self.tries_max, self.owners)))
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
