import asyncio

import pytest
from starlette.requests import Request

from service.api.wire import read_json
from service.errors import BadRequest


def test_a_client_that_goes_away_in_the_middle_of_its_body_is_nothing_unforeseen():
    messages = [{"type": "http.request", "body": b'{"x"', "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"application/json")]}
    with pytest.raises(BadRequest, match="in the middle of the body"):
        asyncio.run(read_json(Request(scope, receive), 1000))
