"""The server's log: lines for people, or JSON objects for programs, never with an example, a query string or a key.

A request is logged by the template of its route, so nothing that a client wrote into a path gets into the log.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from starlette.types import Scope

from hinged.service.data.names import MODEL_NAME
from hinged.service.data.times import shown_time
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
"""Attributes of every log record; any other attribute becomes a field of the JSON object."""


class JSONLines(logging.Formatter):
    """Formats a record as a JSON object on one line: time, level, logger, message, extra fields and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": shown_time(1000 * record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in PLAIN},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def begin_logging(settings: Settings, number: int | None = None) -> None:
    """Log to stderr, including libraries; each line names the process, if the server has several."""
    handler, text = logging.StreamHandler(), TEXT
    if number is not None:
        text = TEXT.replace("%(name)s", "process %(process_number)d: %(name)s")

        def numbered(record: logging.LogRecord) -> bool:
            record.process_number = number
            return True

        handler.addFilter(numbered)
    handler.setFormatter(JSONLines() if settings.log_format == "json" else logging.Formatter(text))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each request that it sends, with the query string


def model_of(scope: Scope) -> str | None:
    """The name of a request's model; None if the request is for no model, or the name is invalid."""
    model = scope.get("path_params", {}).get("model", "")
    return model if MODEL_NAME.fullmatch(model) else None


def log_request(scope: Scope, route: str, status: int, seconds: float) -> None:
    """Log an answered request in one line."""
    facts: dict[str, Any] = {
        "method": scope["method"],
        "route": route,
        "status": status,
        "ms": round(1000 * seconds, 3),
    }
    model = model_of(scope)
    if model is not None:
        facts["model"] = model
    caller = scope.get("state", {}).get("caller")
    if caller is not None:
        facts["key"] = caller.name
    log.info(" ".join(f"{name}={value}" for name, value in facts.items()), extra=facts)
