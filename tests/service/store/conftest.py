"""Stores under test. A new store joins the suite with its own `Backend`."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hinged.service.store.base import Event
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.redis_server import PASSWORD, RedisCluster, RedisServer
from tests.helpers.server import PATIENCE_S
from tests.helpers.store_events import CREATED
from tests.helpers.tcp_proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from hinged.service.store.base import Store

ROOT = Path(__file__).parents[3]


@dataclass
class Backend:
    open: Callable[[], Store]
    opening: str
    """Python code that opens the same store as `store`, for programs in other processes."""
    spoil: Callable[[bytes, bytes], None]
    """Replaces bytes in the files of the closed store."""
    folder: Path
    """The folder with all files of the store."""

    def holding(self, words):
        """Return the words that occur somewhere in the store's files.

        Another process reads the files, because opening and closing SQLite's file in this process would drop its locks.
        """
        command, lines = ["grep", "-rahoF", "-f", "-", self.folder], "\n".join(words).encode()
        grep = subprocess.run(command, check=False, input=lines, capture_output=True)
        assert grep.returncode < 2, grep.stderr
        return {word.decode() for word in grep.stdout.splitlines()}

    def program(self, body: str, **environment: str) -> subprocess.Popen[str]:
        """Start `body` as another process, with the store in `store`."""
        heading = "from itertools import count\nfrom hinged.service.store.base import Event\n"
        return subprocess.Popen(
            [sys.executable, "-c", f"{heading}{self.opening}\n{body}"],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def folder(tmp_path):
    """The folder of the store on SQLite."""
    return tmp_path / "data"


@pytest.fixture
def on_sqlite(folder):
    def spoil(old, new):
        file = folder / "hinged.db"
        content = file.read_bytes()
        assert content.count(old) == 1
        file.write_bytes(content.replace(old, new))

    return Backend(
        open=lambda: SQLiteStore(folder),
        opening=f"from pathlib import Path\nfrom hinged.service.store.sqlite import SQLiteStore\n"
        f"store = SQLiteStore(Path({str(folder)!r}))",
        spoil=spoil,
        folder=folder,
    )


@pytest.fixture
def redis_server(tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def proxy(redis_server):
    with Proxy(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
def through(proxy):
    """A store that reaches its server through the proxy. It waits as long as needed unless the connection is cut."""
    with closing(RedisStore(f"redis://:{PASSWORD}@127.0.0.1:{proxy.port}", timeout_s=PATIENCE_S)) as store:
        store.create("m", CREATED)
        yield store


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def on_redis(redis_server):
    return Backend(
        open=lambda: RedisStore(redis_server.url, timeout_s=PATIENCE_S),
        opening=(
            "from hinged.service.store.redis import RedisStore\n"
            f"store = RedisStore({redis_server.url!r}, timeout_s=60.0)"
        ),
        spoil=redis_server.spoil,
        folder=redis_server.folder,
    )


@pytest.fixture(params=["on_sqlite", "on_redis"])
def backend(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def reopen(backend):
    """Close the store and open it again."""
    current = []

    def anew():
        close()
        current.append(backend.open())
        return current[0]

    def close():
        while current:
            current.pop().close()

    anew.close = close
    yield anew
    close()


@pytest.fixture
def store(reopen):
    return reopen()


@pytest.fixture
def model(store):
    store.create("m", CREATED)
    return "m"


@pytest.fixture
def event():
    """Returns a function that makes an event with `ids`, which also occur in its payload."""
    return lambda *ids, kind="learned": Event(kind, f"payload of {ids}".encode(), ids)
