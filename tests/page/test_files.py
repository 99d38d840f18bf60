"""The page as files: what is served, how, and that the libraries are what they are said to be."""

import gzip
import hashlib
import re

import httpx
import pytest

from hinged.service.page.files import POLICY, STATIC, files
from tests.helpers.server import ROOT

WEIGHT_MAX = 150_000  # bytes of all of the page, gzipped
DOCS = ("docs.html", "docs.js", "vendor/swagger-ui-bundle.js", "vendor/swagger-ui.css")


def test_every_vendored_file_is_the_one_of_the_list_and_has_its_licence():
    folder = STATIC / "vendor"
    listed = dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text().splitlines())
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    del there["SHA256SUMS"]
    assert there == listed
    assert {"htm.LICENSE", "preact.LICENSE", "uplot.LICENSE", "swagger-ui.LICENSE"} <= set(listed)


def test_the_page_weighs_little():
    page = {path: file for path, file in files().items() if path not in DOCS}
    assert sum(len(file.zipped or file.body) for file in page.values()) < WEIGHT_MAX


@pytest.mark.server
@pytest.mark.parametrize("path", ["/ui", "/docs", "/ui/app.js", "/ui/style.css", "/ui/vendor/uplot.js", "/ui/icon.svg"])
def test_each_file_comes_under_the_policy_compressed_and_only_when_it_changed(server, path):
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


@pytest.mark.server
def test_what_is_no_file_of_the_page_is_not_served(server):
    for path in ("/ui/nothing.js", "/ui/../access.py", "/ui/vendor/SHA256SUMS", "/ui/%2e%2e/files.py", "/ui/vendor"):
        assert httpx.get(server.url + path).status_code == 404


def test_every_file_that_a_file_names_is_there():
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
