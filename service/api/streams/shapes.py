"""The bodies and answers of the streams."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from hinged.service.data.examples import STRICT


class StreamEvent(TypedDict):
    """A server-sent event."""

    event: str
    data: str
    id: NotRequired[str]


SubscribeBody = TypedDict("SubscribeBody", {"from": NotRequired[Annotated[int, Field(ge=0)] | None]})
with_config(STRICT)(SubscribeBody)
SUBSCRIBE: TypeAdapter[Any] = TypeAdapter(SubscribeBody)
