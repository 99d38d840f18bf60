"""Run nginx with docker/nginx.conf in front of a server of the tests."""

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager

from tests.helpers.certificates import self_signed
from tests.helpers.server import PATIENCE_S, ROOT, eventually, free_port, missing


@contextmanager
def behind_nginx(folder, server_port, changes=()):
    """Start nginx in front of a server; yield the URL. Its certificate (tls.pem) and logs are in `folder`.

    changes: pairs of a text in the configuration and its replacement.
    """
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or missing(
        "there is no nginx: install it (apt-get install nginx-light), then run the tests again"
    )
    certificate, _ = self_signed(folder, "DNS:localhost")
    port, text = free_port(), (ROOT / "docker" / "nginx.conf").read_text()
    here = {
        "listen 443": f"listen 127.0.0.1:{port}",
        "127.0.0.1:8000": f"127.0.0.1:{server_port}",
        "server_name kernel.example": "server_name localhost",
        "/etc/ssl/kernel.example": str(certificate.with_suffix("")),
        "/var/log/nginx": str(folder),
        "events {}": f"events {{}}\npid {folder}/nginx.pid;\ndaemon off;\n",
    }
    for told, instead in [*here.items(), *changes]:
        assert told in text
        text = text.replace(told, instead)
    (folder / "nginx.conf").write_text(text)
    with (folder / "errors.log").open("w") as errors:
        command = [nginx, "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"]
        process = subprocess.Popen(command, stdout=errors, stderr=errors)
    try:
        eventually(lambda: _listens(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "errors.log").read_text()
        yield f"https://localhost:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
