"""Test the files of the page: which files the server sends, with which headers, and the hashes of the libraries."""

import gzip
import hashlib
import re

import httpx
import pytest

from hinged.service.page.files import POLICY, STATIC, files
from tests.helpers.server import ROOT

WEIGHT_MAX = 150_000  # bytes of the whole page, gzipped, without /docs
DOCS = ("docs.html", "docs.js", "vendor/swagger-ui-bundle.js", "vendor/swagger-ui.css")


def test_every_vendored_file_matches_its_listed_hash_and_has_a_licence():
    folder = STATIC / "vendor"
    listed = dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text().splitlines())
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    del there["SHA256SUMS"]
    assert there == listed
    assert {"htm.LICENSE", "preact.LICENSE", "uplot.LICENSE", "swagger-ui.LICENSE"} <= set(listed)


def test_the_page_is_small():
    page = {path: file for path, file in files().items() if path not in DOCS}
    assert sum(len(file.zipped or file.body) for file in page.values()) < WEIGHT_MAX


@pytest.mark.parametrize("path", ["/ui", "/docs", "/ui/app.js", "/ui/style.css", "/ui/vendor/uplot.js", "/ui/icon.svg"])
def test_each_file_is_sent_compressed_with_the_policy_and_only_if_it_has_changed(server, path):
    answer = httpx.get(server.url + path)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    plain = httpx.get(server.url + path, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == answer.content
    again = httpx.get(server.url + path, headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == POLICY


def test_the_server_sends_only_files_of_the_page(server):
    for path in ("/ui/nothing.js", "/ui/../access.py", "/ui/vendor/SHA256SUMS", "/ui/%2e%2e/files.py", "/ui/vendor"):
        assert httpx.get(server.url + path).status_code == 404


def test_every_imported_or_linked_file_exists():
    for path, file in files().items():
        if path.startswith("vendor/"):
            continue
        text = file.body.decode()
        folder = path.rpartition("/")[0]
        for name in re.findall(r"""(?:from |import\()"\./([^"]+)\"""", text):
            assert f"{folder}/{name}".lstrip("/") in files(), f"{path} imports {name}"
        for name in re.findall(r"""(?:src|href)="ui/([^"]+)\"""", text):
            assert name in files(), f"{path} names {name}"
        assert "http://" not in re.sub(r"http://www\.w3\.org/\S+", "", text), path
        assert "https://" not in text, path
        assert "innerHTML" not in text, path


def test_the_files_are_in_the_package():
    assert (ROOT / "hinged" / "service" / "page" / "static" / "index.html").exists()
    assert gzip.decompress(files()["app.js"].zipped) == (STATIC / "app.js").read_bytes()
