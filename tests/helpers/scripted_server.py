"""An HTTP server on a real socket that answers by a script and records the requests."""

import http.server
import json
import socket
import ssl
import threading
from contextlib import contextmanager


@contextmanager
def scripted(certificate=None):
    """Run a ScriptedServer during the block."""
    with ScriptedServer(certificate) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class ScriptedServer(http.server.ThreadingHTTPServer):
    """Answers requests by `script`, one step per request; `answer(method, path, body)` answers all later requests.

    A step of the script is "drop" (close the connection), "lose" (answer, but close the connection before the
    answer is written) or a tuple (status, body, headers). certificate: the files of a certificate and of its key.
    failed: the number of failed handshakes.
    """

    daemon_threads = True
    # Connections that a test leaves open must not keep server_close() waiting.
    block_on_close = False

    def __init__(self, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server_port}"
        self.failed = 0
        if certificate:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._tls.load_cert_chain(*certificate)
        self.script = []
        self.requests = []
        self.heard = lambda _headers: None
        self.answer = lambda _method, _path, _body: (200, {})

    def get_request(self):
        connection, address = super().get_request()
        if self.url.startswith("https:"):
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:
                self.failed += 1
                raise
        return connection, address

    def handle_error(self, request, client_address):
        pass  # a dropped connection is part of the script


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # send head and body in one segment

    def log_message(self, *_):
        pass

    def handle_request(self):
        length = int(self.headers.get("content-length", 0))
        raw = self.rfile.read(length)
        is_batch = self.headers.get("content-type") == "application/vnd.hinged.batch"
        body = json.loads(raw) if raw and not is_batch else raw or None
        self.server.requests.append((self.command, self.path, body))
        self.server.heard(self.headers)
        step = self.server.script.pop(0) if self.server.script else None
        if step == "lose":
            self.server.answer(self.command, self.path, body)
        if step in ("drop", "lose"):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if step is None:
            step = (*self.server.answer(self.command, self.path, body), {})
        status, answer, headers = step
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PATCH = do_PUT = do_POST = do_DELETE = handle_request  # noqa: N815 - the base class's names
