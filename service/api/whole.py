"""Requests about a server as a whole: join the answers of its processes into one answer.

A list that silently lacks models would be wrong, so it needs the answers of all processes. The server is ready when all
processes are. The metrics of each process get a label, `process`, and show which process does not answer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from starlette.responses import Response

from hinged.service.edge.middleware import JSON
from hinged.service.errors import Unavailable

UP = "hinged_process_up"
SAMPLE = re.compile(rb"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{)?")
"""The name of a sample, and the brace if labels follow."""


class ProcessAnswer(NamedTuple):
    """The answer of a process; status 0 if it gave none."""

    number: int
    status: int
    body: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = ()


PutTogether = Callable[[ProcessAnswer, Sequence[ProcessAnswer]], Response | None]
"""Joins the answer of this process and the other processes' answers. None if its own is a refusal, which then stands.
"""


def put_models(mine: ProcessAnswer, others: Sequence[ProcessAnswer]) -> Response:
    """List the models of all processes, by name. Unavailable if a process does not answer."""
    found: list[dict[str, Any]] = []
    for answer in (mine, *others):
        if answer.status != HTTPStatus.OK:
            raise Unavailable(f"process {answer.number} does not list its models; try again", retry_after_s=1)
        found += json.loads(answer.body)["models"]
    return JSON({"models": sorted(found, key=lambda model: str(model["model"]))})


def put_readiness(mine: ProcessAnswer, others: Sequence[ProcessAnswer]) -> Response | None:
    """Report the server as ready if all processes are, with the numbers of models by state."""
    telling = {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}
    if mine.status not in telling:
        return None
    counts: Counter[str] = Counter()
    for answer in (mine, *others):
        if answer.status in telling:
            counts.update(json.loads(answer.body)["models"])
    ready = all(answer.status == HTTPStatus.OK for answer in (mine, *others))
    return JSON({"status": "ready" if ready else "starting", "models": dict(counts)}, 200 if ready else 503)


def put_metrics(mine: ProcessAnswer, others: Sequence[ProcessAnswer]) -> Response:
    """Return the metrics of all processes, each sample with a label for its process."""
    heads: dict[str, list[bytes]] = {}
    samples: dict[str, list[bytes]] = {}
    answers = sorted((mine, *others))
    for answer in answers:
        family = ""
        for line in answer.body.splitlines() if answer.status == HTTPStatus.OK else ():
            if line.startswith(b"# ") and (about := line.split(b" ", 3))[1] in {b"HELP", b"TYPE", b"UNIT"}:
                family = about[2].decode()
                if line not in (kept := heads.setdefault(family, [])):
                    kept.append(line)
            elif line and not line.startswith(b"#"):
                samples.setdefault(family, []).append(_labelled(line, answer.number))
    heads[UP] = [b"# HELP %b 1 if the process answers." % UP.encode(), b"# TYPE %b gauge" % UP.encode()]
    samples[UP] = [
        b'%b{process="%d"} %d.0' % (UP.encode(), each.number, each.status == HTTPStatus.OK) for each in answers
    ]
    lines = [line for family, head in heads.items() for line in (*head, *samples.get(family, ()))]
    lines += [b"# EOF"] if mine.body.rstrip().endswith(b"# EOF") else []
    kind = dict(mine.headers)[b"content-type"].decode()
    return Response(b"\n".join(lines) + b"\n", media_type=None, headers={"Content-Type": kind})


def _labelled(line: bytes, number: int) -> bytes:
    found = SAMPLE.match(line)
    if found is None:
        return line
    label = b'{process="%d"' % number
    return found[1] + label + (b"," if found[2] else b"}") + line[found.end() :]
