"""A scene for faults: a server, its store and, if the store is Redis, the connection between server and store."""

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from hinged.service.peers.ring import owner_of
from hinged.service.store.division import division_of, name_of
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from tests.faults.disturbances import NEED_LIBRARY, disk_full
from tests.helpers.redis_server import PASSWORD, RedisServer
from tests.helpers.server import RunningServer, missing
from tests.helpers.tcp_proxy import Proxy


class Scene:
    """The started parts of a scene. Clients reach the server through `front`, at `url`.

    If the scene is `failing`, a file in the folder `faults` makes system calls fail (failing.c), in the server and in
    Redis. The name of the file is the name of the fault.
    """

    def __init__(self, folder, store="sqlite", *, failing=False, data=None, **settings):
        self.folder = Path(folder)
        self.data = Path(data or self.folder / "disk")
        self.store = store
        self.settings = {"snapshot_examples": 50, "shutdown_s": 20, **settings}
        self.faults = self.folder / "faults"
        self.faults.mkdir()
        self._environment = {"LD_PRELOAD": str(failing_library(folder)), "FAULTS": str(self.faults)} if failing else {}
        self.redis = self.line = None

    def __enter__(self):
        if self.store == "redis":
            self.redis = RedisServer(self.data / "redis", environment=self._environment).start()
            self.line = Proxy(self.redis.port)
            self.settings |= {"store": f"redis://:{PASSWORD}@127.0.0.1:{self.line.port}", "redis_timeout_s": 1}
        self.server = self.another_server()
        self.server.start()
        self.front = Proxy(self.server.port)
        self.url = f"http://127.0.0.1:{self.front.port}"
        return self

    def another_server(self):
        """Return a server on the same store that is not started."""
        number = len(list(self.folder.glob("*.log")))
        server = RunningServer(self.data / "hinged", **self.settings)
        server.log = self.folder / f"server{number}.log"
        server.log.touch()
        server.env |= self._environment
        return server

    def begin(self, fault):
        (self.faults / fault).touch()

    def end(self, fault):
        (self.faults / fault).unlink()

    def copy(self, folder):
        """Copy the current files on disk. SQLite keeps a write-ahead log until its file is next closed cleanly."""
        shutil.copytree(self.data / ("redis" if self.redis else "hinged"), folder)

    def open_store(self, model=None):
        """Return the store itself, once the server has ended; of a divided store, the part of this model."""
        if self.redis:
            return RedisStore(self.redis.url)
        folder = self.data / "hinged"
        division = division_of(folder)
        return SQLiteStore(folder / name_of(owner_of(model, division), division) if division else folder)

    def __exit__(self, *_):
        self.front.close()
        if self.server.process.poll() is None:
            self.server.kill()
        if self.redis:
            self.line.close()
            self.redis.stop()


def failing_library(folder):
    """Compile failing.c and return the library."""
    return compiled("failing.c", folder)


def compiled(name, folder):
    """Compile a library of this folder and return it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        missing("there is no C compiler for faults of disk and clock: install one (apt-get install gcc)")
    library = Path(folder) / Path(name).with_suffix(".so")
    source = Path(__file__).with_name(name)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@contextmanager
def scene_for(folder, store, faults, **settings):
    """Make the scene that `faults` need."""
    mounted = disk_full in faults and _mount(folder / "disk")
    try:
        with Scene(folder, store, failing=not NEED_LIBRARY.isdisjoint(faults), **settings) as scene:
            yield scene
    finally:
        if mounted:
            subprocess.run(["umount", folder / "disk"], check=True)


def _mount(folder):
    """Mount a small file system in memory, if this user may mount one; return whether it is mounted."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=False, capture_output=True
    )
    return mounted.returncode == 0
