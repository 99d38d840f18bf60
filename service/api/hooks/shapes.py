"""The bodies and answers of the hook routes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.answers import MarkKind
from hinged.service import limits
from hinged.service.api.openapi import Shape
from hinged.service.data.examples import STRICT


@with_config(STRICT)
class NewHook(TypedDict):
    """A URL to call, and the kinds of events after which the server calls it."""

    url: Annotated[str, Field(min_length=1, max_length=limits.URL_CHARS_MAX)]
    events: Annotated[list[MarkKind], Field(min_length=1, max_length=100)]


NEW_HOOK: TypeAdapter[NewHook] = TypeAdapter(NewHook)
_ID = "5f3c1b7a90d24e6f8a1b2c3d4e5f6071"
_HOOK = {"id": _ID, "url": "https://hooks.example.com/weather", "events": ["drift", "alarm"]}
NEW_HOOK_BODY = Shape(NEW_HOOK, {"url": _HOOK["url"], "events": _HOOK["events"]})
ADDED = {"model": "weather", "position": 6, **_HOOK, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw8d2Nn0rFkQ0="}
_SHOWN = {**_HOOK, "created_at": "2026-05-01T12:00:00.000Z", "waiting": 0, "error": None}
LISTED = {"model": "weather", "position": 6, "hooks": [_SHOWN]}
REMOVED = {"model": "weather", "position": 7, "id": _ID, "deleted": True}
