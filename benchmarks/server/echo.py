"""What predictions are compared with: a FastAPI route that gives the body back, on the same uvicorn. Takes a port."""

import sys

import uvicorn
from fastapi import FastAPI, Request
from starlette.responses import Response

app = FastAPI()


@app.post("/echo")
async def echo(request: Request):
    return Response(await request.body(), media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_config=None)
