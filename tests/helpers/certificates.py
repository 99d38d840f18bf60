"""Make certificates for servers of the tests."""

import subprocess


def self_signed(folder, name):
    """Return the files of a certificate for `name`, for example DNS:localhost or IP:127.0.0.1, and of its key."""
    certificate, key = folder / "tls.pem", folder / "tls.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=tests", "-addext", f"subjectAltName={name}", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key
