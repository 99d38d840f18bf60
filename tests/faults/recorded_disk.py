"""The files that a power cut leaves on a disk: replay the calls that recording.c recorded, without what was not synced.

A disk keeps what was synced. Of later writes to a file it keeps any sectors. Of later changes of names in a folder it
keeps a number of changes in their order, or none. So a file or folder that was created, renamed or removed has its old
name until the folder that it is in is synced.
"""

import struct
from fcntl import LOCK_EX, flock
from functools import reduce
from itertools import count
from pathlib import Path

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
        self._note("m", "", number)

    def sync(self, path):
        """Record that a folder was synced."""
        self._note("s", path, 0)

    def _note(self, kind, path, number):
        with self.file.open("ab") as file:
            flock(file, LOCK_EX)
            file.write(HEAD.pack(ord(kind), len(path), 0, number) + path.encode())

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
    """Files and folders, each as it was synced last and with the changes since then."""

    def __init__(self):
        self._numbers = count(1)
        self.synced, self.changes = {}, {}  # bytes and a list of changes, by the number of a file
        self.folders = {0: []}  # changes of names that were not synced, by the number of a folder
        self.names, self.now = {}, {}  # number by (folder, name): as synced, and as the programs see it
        self.acknowledged = 0

    def do(self, kind, path, data, number):
        """Do what a recorded call did."""
        if kind == "m":
            self.acknowledged = number
            return
        place = self._place(path)
        if kind == "s":
            self._sync(self.now.get(place, 0))
        elif kind in "cd":
            made = next(self._numbers)
            if kind == "d":
                self.folders[made] = []
            else:
                self.synced[made], self.changes[made] = b"", []
            self._change((place, made))
        elif kind in "wt":
            self.changes[self.now[place]].append((number, data if kind == "w" else None))
        elif kind == "u":
            self._change((place, None))
        elif kind == "r":
            self._change((place, None), (self._place(data.decode()), self.now[place]))

    def _place(self, path):
        """Return the number of the folder that a path is in, and its name there."""
        *folders, name = path.split("/")
        return reduce(lambda folder, each: self.now[folder, each], folders, 0), name

    def _sync(self, number):
        if number in self.folders:
            for change in self.folders[number]:
                _rename(self.names, *change)
                self._arrived(number, *change)
            self.folders[number] = []
        else:
            self.synced[number] = _changed(self.synced[number], self.changes[number])
            self.changes[number] = []

    def _change(self, *change):
        _rename(self.now, *change)
        ((folder, _), _) = change[-1]
        self.folders[folder].append(change)

    def _arrived(self, folder, *change):
        """Forget what the folder that a file came from still has to write about it: a rename is whole or not at all."""
        number = change[-1][1]
        for (other, _), _ in change:
            if number is not None and other != folder:
                self.folders[other] = [each for each in self.folders[other] if number not in dict(each).values()]

    def _paths(self, names, folder=0, before=""):
        """Yield the path and the number of each file that can be reached from the root."""
        for (parent, name), number in names.items():
            if parent == folder and number in self.folders:
                yield from self._paths(names, number, f"{before}{name}/")
            elif parent == folder:
                yield before + name, number

    def written(self):
        """Return the files with everything that was written, as after the end of a process."""
        return {path: _changed(self.synced[file], self.changes[file]) for path, file in self._paths(self.now)}

    def left(self, rng, share):
        """Return the files after a power cut. Of what was not synced, about this share is on the disk."""
        names = dict(self.names)
        for changes in self.folders.values():
            kept = {0: 0, 1: len(changes)}.get(share, rng.randint(0, len(changes)))
            for change in changes[:kept]:
                _rename(names, *change)
        return {path: self._torn(file, rng, share) for path, file in self._paths(names)}

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


def _rename(names, *change):
    """Do one change of names. Its parts are done together or not at all."""
    for place, number in change:
        if number is None:
            names.pop(place, None)
        else:
            names[place] = number


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
