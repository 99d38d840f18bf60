"""The files that a power cut leaves on a disk: replay the calls that recording.c recorded, without what was not synced.

A disk keeps what was synced. Of later writes to a file it keeps any sectors. Of later changes of names in a folder it
keeps a number of changes in their order, or none. So a file that was created, renamed or removed has its old name until
its folder is synced.
"""

import struct
from fcntl import LOCK_EX, flock
from pathlib import Path, PurePosixPath

from tests.faults.scene import compiled

HEAD = struct.Struct("<IIIq")
SECTOR = 512


class Recording:
    """A folder whose changes are recorded, in the programs that have the variables of `env`."""

    def __init__(self, folder, root):
        self.root, self.file = Path(root), Path(folder) / "record"
        self.root.mkdir(parents=True, exist_ok=True)
        self.file.touch()
        library = compiled("recording.c", folder)
        self.env = {"LD_PRELOAD": str(library), "RECORDED": str(self.root), "RECORD": str(self.file)}

    def mark(self, number):
        """Record that everything up to here was acknowledged."""
        with self.file.open("ab") as file:
            flock(file, LOCK_EX)
            file.write(HEAD.pack(ord("m"), 0, 0, number))

    def calls(self):
        """Return all calls: kind, path, data, and the position, size or mark."""
        content, at, found = self.file.read_bytes(), 0, []
        while at < len(content):
            kind, path, size, number = HEAD.unpack_from(content, at)
            at += HEAD.size
            data = content[at + path : at + path + size]
            found.append((chr(kind), content[at : at + path].decode(), data, number))
            at += path + size
        return found


class Disk:
    """Files and names, each as it was synced last and with the changes since then."""

    def __init__(self):
        self.synced, self.changes = {}, {}  # bytes and a list of changes, by the number of a file
        self.names, self.now = {}, {}  # number of the file by path: as synced, and as the programs see it
        self.folders = {".": []}  # by folder, the changes of its names that were not synced
        self.acknowledged = 0

    def do(self, kind, path, data, number):
        """Do what a recorded call did."""
        if kind == "m":
            self.acknowledged = number
        elif kind == "s" and path in self.folders:
            for change in self.folders[path]:
                _rename(self.names, *change)
                self._arrived(path, *change)
            self.folders[path] = []
        elif kind == "s":
            file = self.now[path]
            self.synced[file] = _changed(self.synced[file], self.changes[file])
            self.changes[file] = []
        elif kind == "c":
            file = self.now[path] = len(self.synced)
            self.synced[file], self.changes[file] = b"", []
            self._note(path, file)
        elif kind == "d":
            self.folders[path] = []
        elif kind in "wt":
            self.changes[self.now[path]].append((number, data if kind == "w" else None))
        elif kind == "u":
            del self.now[path]
            self._note(path, None)
        elif kind == "r":
            to = data.decode()
            file = self.now[to] = self.now.pop(path)
            self.folders[_folder(to)].append(((path, None), (to, file)))

    def _note(self, path, file):
        self.folders[_folder(path)].append(((path, file),))

    def _arrived(self, folder, *change):
        """Forget what the folder that a file came from still has to write about it: a rename is whole or not at all."""
        file = change[-1][1]
        for path, _ in change:
            if file is not None and (other := _folder(path)) != folder:
                self.folders[other] = [each for each in self.folders[other] if file not in dict(each).values()]

    def written(self):
        """Return the files with everything that was written, as after the end of a process."""
        return {path: _changed(self.synced[file], self.changes[file]) for path, file in self.now.items()}

    def left(self, rng, share):
        """Return the files after a power cut. Of what was not synced, about this share is on the disk."""
        names = dict(self.names)
        for changes in self.folders.values():
            kept = {0: 0, 1: len(changes)}.get(share, rng.randint(0, len(changes)))
            for change in changes[:kept]:
                _rename(names, *change)
        return {path: self._torn(file, rng, share) for path, file in names.items()}

    def _torn(self, file, rng, share):
        content = self.synced[file]
        for at, data in self.changes[file]:
            if data is None:
                if rng.random() < share:
                    content = _changed(content, [(at, None)])
                continue
            for start in range(0, len(data), SECTOR):
                if rng.random() < share:
                    content = _changed(content, [(at + start, data[start : start + SECTOR])])
        return content


def _folder(path):
    return str(PurePosixPath(path).parent)


def _rename(names, *change):
    """Do one change of names. Its parts are done together or not at all."""
    for path, file in change:
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file


def _changed(content, changes):
    """Return the bytes of a file after some writes and cuts."""
    content = bytearray(content)
    for at, data in changes:
        end = at if data is None else at + len(data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        if data is None:
            del content[at:]
        else:
            content[at:end] = data
    return bytes(content)


def put(files, folder):
    """Write these files into a new folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def on_disk(root):
    """Return the files that are really below a folder."""
    paths = [path for path in Path(root).rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}
