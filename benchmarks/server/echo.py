"""The baseline for predictions: an application that returns the request body, on the same uvicorn. Argument: a port."""

import sys

import uvicorn

HEADERS = [(b"content-type", b"application/json")]


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, length]})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_config=None, lifespan="off")
