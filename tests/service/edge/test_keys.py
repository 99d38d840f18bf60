import json
import os
import stat
import subprocess
import sys
import threading

import pytest

from hinged.service.edge.keys import NOBODY_ASKED, PREFIX, Key, Keyring, create_key, digest, read_keys, revoke_key
from hinged.service.errors import Conflict, Invalid, NotFound, Unauthenticated, Unavailable


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


def key(role="reader", *models):
    return Key(name="k", role=role, models=models or ("*",), created_at="", sha256="0" * 64)


def test_a_file_holds_digests_and_no_key(path):
    text = create_key(path, "ann", "annotator", ("fraud-*", "spam"))
    assert text.startswith(PREFIX)
    assert len(text) >= len(PREFIX) + 43  # 256 bits in base 64
    content = path.read_text()
    assert text not in content
    assert text[len(PREFIX) :] not in content
    (kept,) = read_keys(path)
    assert (kept.name, kept.role, kept.models) == ("ann", "annotator", ("fraud-*", "spam"))
    assert kept.sha256 == digest(text)


def test_no_two_keys_are_equal(path):
    texts = {create_key(path, f"k{n}", "reader") for n in range(20)}
    assert len(texts) == 20
    ring = Keyring(path)
    assert {ring.find(text).name for text in texts} == {f"k{n}" for n in range(20)}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_the_file_is_readable_by_its_owner_alone_also_after_a_change(path):
    create_key(path, "a", "reader")
    path.chmod(0o644)
    create_key(path, "b", "reader")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_change_replaces_the_target_of_a_link_and_the_link_stays(path, tmp_path):
    link = tmp_path / "link.json"
    create_key(path, "a", "reader")
    link.symlink_to(path)
    create_key(link, "b", "reader")
    assert link.is_symlink()
    assert [k.name for k in read_keys(path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("", ("*",)),
        ("a b", ("*",)),
        ("a\n", ("*",)),
        ("x" * 65, ("*",)),
        ("a", ()),
        ("a", ("",)),
        ("a", ("*fraud",)),
        ("a", ("a*b",)),
        ("a", ("../x",)),
        ("a", ("x\n",)),
    ],
)
def test_invalid_names_and_patterns_are_refused_and_nothing_is_written(path, name, models):
    with pytest.raises(Invalid):
        create_key(path, name, "reader", models)
    assert list(path.parent.iterdir()) == []


def test_a_name_is_unique_and_free_again_after_it_was_revoked(path):
    first = create_key(path, "ann", "reader")
    with pytest.raises(Conflict, match="already"):
        create_key(path, "ann", "admin")
    revoke_key(path, "ann")
    with pytest.raises(NotFound, match="no key named 'ann'"):
        revoke_key(path, "ann")
    second = create_key(path, "ann", "reader")
    ring = Keyring(path)
    assert ring.find(first) is None
    assert ring.find(second).name == "ann"


@pytest.mark.parametrize("left", [b"", b"{}", b"half of a much longer file" * 100])
def test_what_a_killed_change_has_left_does_not_matter(path, left):
    create_key(path, "a", "reader")
    new = path.parent / "keys.json.new"
    new.write_bytes(left)
    new.chmod(0o644)
    create_key(path, "b", "reader")
    assert [k.name for k in read_keys(path)] == ["a", "b"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_the_new_file_is_never_written_through_a_link(path):
    (path.parent / "other").write_text("untouched")
    (path.parent / "keys.json.new").symlink_to(path.parent / "other")
    with pytest.raises(Unavailable, match="cannot be written"):
        create_key(path, "a", "reader")
    assert (path.parent / "other").read_text() == "untouched"


FULL = """
import resource, signal, sys
from pathlib import Path
from hinged.service.edge.keys import create_key
from hinged.service.errors import Unavailable

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
try:
    create_key(Path(sys.argv[1]), "b", "admin")
except Unavailable as error:
    print(error)
"""


def test_a_change_that_finds_no_room_is_refused_and_leaves_the_file(path):
    create_key(path, "a", "admin")
    before = path.read_text()
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{path} cannot be replaced durably: File too large"
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_pipe_of_the_new_files_name_holds_nobody_up(path):
    os.mkfifo(path.parent / "keys.json.new")
    with pytest.raises(Unavailable, match="cannot be written"):
        create_key(path, "a", "reader")


@pytest.mark.parametrize(
    "change", [lambda path, by: create_key(path, "c", "admin", by=by), lambda path, by: revoke_key(path, "b", by=by)]
)
def test_a_key_that_is_not_in_the_file_any_more_changes_nothing(path, change):
    create_key(path, "a", "admin")
    create_key(path, "b", "admin")
    gone = read_keys(path)[0]
    revoke_key(path, "a")
    create_key(path, "a", "admin")  # another key of the same name
    before = path.read_bytes()
    with pytest.raises(Unauthenticated, match="revoked"):
        change(path, gone)
    assert path.read_bytes() == before
    change(path, read_keys(path)[-1])


def test_no_simultaneous_change_is_lost(path):
    def work(number):
        for turn in range(5):
            create_key(path, f"k{number}-{turn}", "reader")
            revoke_key(path, f"k{number}-{turn}")
        create_key(path, f"k{number}", "reader")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(k.name for k in read_keys(path)) == [f"k{n}" for n in range(8)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"version": 2, "keys": []}',
        b'{"keys": [{"name": "a"}]}',
        b'{"keys": [{"name": "a", "role": "god", "created_at": "", "sha256": "' + b"0" * 64 + b'"}]}',
        b'{"keys": [{"name": "a", "role": "admin", "created_at": "", "sha256": "plain text"}]}',
        b"\xff",
    ],
)
def test_an_invalid_key_file_is_refused_and_left_as_it_is(path, content):
    path.write_bytes(content)
    for what in (lambda: Keyring(path), lambda: create_key(path, "b", "reader"), lambda: revoke_key(path, "a")):
        with pytest.raises(Invalid, match=r"keys\.json is not a valid key file"):
            what()
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_a_file_with_two_keys_of_one_name_is_invalid(path):
    create_key(path, "a", "reader")
    content = json.loads(path.read_text())
    content["keys"] *= 2
    path.write_text(json.dumps(content))
    with pytest.raises(Invalid, match="two keys have the name 'a'"):
        Keyring(path)


def test_a_keyring_without_its_file_cannot_be_made(path):
    with pytest.raises(Invalid, match="cannot be read"):
        Keyring(path)


@pytest.mark.parametrize("text", ["", "hinged_", "x" * 5000, "\udcff", "ann"])
def test_a_text_that_is_no_key_opens_nothing(path, text):
    create_key(path, "ann", "admin")
    assert Keyring(path).find(text) is None


def test_the_digest_is_no_key(path):
    kept = digest(create_key(path, "ann", "admin"))
    assert Keyring(path).find(kept) is None


def test_a_change_of_the_file_takes_effect_with_the_next_request(path):
    text = create_key(path, "ann", "admin")
    ring = Keyring(path)
    assert ring.find(text)
    revoke_key(path, "ann")
    assert ring.find(text) is None
    other = create_key(path, "bob", "reader")
    assert ring.find(other).name == "bob"


def test_a_missing_or_invalid_file_lets_nobody_in_until_it_is_valid_again(path):
    text = create_key(path, "ann", "admin")
    good = path.read_bytes()
    ring = Keyring(path)
    path.unlink()
    for _ in range(2):
        with pytest.raises(Unavailable):
            ring.find(text)
    path.write_bytes(good[:-20])
    for _ in range(2):
        with pytest.raises(Unavailable):
            ring.find(text)
    path.write_bytes(good)
    assert ring.find(text).name == "ann"


def test_each_role_may_do_what_lower_roles_may():
    order = ["reader", "annotator", "writer", "admin"]
    for have, role in enumerate(order):
        assert [key(role).plays(asked) for asked in order] == [have >= asked for asked in range(4)]


def test_a_key_covers_its_models_and_those_with_its_prefix():
    bound = key("reader", "fraud-*", "spam")
    assert all(bound.covers(model) for model in ("fraud-", "fraud-eu", "spam"))
    assert not any(bound.covers(model) for model in ("fraud", "Fraud-eu", "spam2", "xspam", "", "*"))
    assert key().covers("any")
    assert key().covers("*")


def test_a_server_without_keys_lets_everyone_do_everything():
    assert NOBODY_ASKED.plays("admin")
    assert NOBODY_ASKED.covers("*")
