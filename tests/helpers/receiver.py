"""A receiver of hooks: a real HTTP server that keeps what it gets, and checks signatures by its own computation."""

import base64
import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.helpers.server import eventually


class Receiver:
    """Keeps each request in `got` as (headers, body).

    path: beginning of the paths whose requests are kept. answers: statuses of the next answers; then 204. open: while
    it is not set, no request gets an answer.
    """

    def __init__(self, tls=None):
        self.path, self.got, self.answers, self.headers = "/", [], [], {}
        self.open = threading.Event()
        self.open.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status = 204
                if self.path.startswith(receiver.path):
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    receiver.got.append((headers, body))
                    receiver.open.wait()
                    status = receiver.answers.pop(0) if receiver.answers else 204
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.host = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.open.set()
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, count):
        """Wait until there are this many requests; return their bodies."""
        eventually(lambda: len(self.got) >= count)
        return self.told()

    def told(self):
        return [json.loads(body) for _, body in self.got]

    def ids(self):
        return [headers["webhook-id"] for headers, _ in self.got]


def is_signed(headers, body, secret):
    """Return whether a message has the signature that Standard Webhooks requires."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    told = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, told, hashlib.sha256).digest()).decode()
    return hmac.compare_digest(headers["webhook-signature"], expected)
