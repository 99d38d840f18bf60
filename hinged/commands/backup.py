"""`hinged backup` and `restore`: write every model of a running server to files, and create models from such files."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hinged.client.client import HingedError
from hinged.commands.options import asks, sentence
from hinged.commands.questions import as_lines, tell
from hinged.commands.writing import write
from hinged.disk import put_in_place
from hinged.operations.snapshots import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hinged.client.client import Client

INDEX = "backup.json"
CONFIGURATION = ".configuration"  # suffix of a model without features
VERSION = 1
TARS = {".tar": "", ".tar.gz": "gz", ".tgz": "gz"}
PLACE = click.Path(path_type=Path)


Put = Callable[[str, bytes], object]
"""A function that writes a file of a backup."""
Get = Callable[[str], bytes]
"""A function that reads a file of a backup. It raises OSError or KeyError if the file is missing."""


@click.command(epilog="Example: hinged backup monday.tar.gz")
@click.argument("to", type=PLACE)
@as_lines
@asks
def backup(client: Client, *, to: Path, as_json: bool) -> None:
    """Write every model of the server to TO, a new folder or a .tar or .tar.gz file, while it runs.

    Each model is written as it is when its turn comes. Needs the key of an admin, and holds all that an admin may see.
    """
    index: dict[str, Any] = {"version": VERSION, "at": now(), "models": [], "failed": []}
    names = [summary["model"] for summary in client.models()]
    with written(to) as put:
        for name in names:
            file = name + SUFFIX
            try:
                data = client.export_model(name)
            except HingedError as error:
                if error.code == "not_found":  # the model was deleted meanwhile
                    continue
                if error.status is None:
                    raise
                if error.details.get("state") != "waiting":
                    index["failed"].append({"model": name, "error": sentence(error)})
                    continue
                # The model has no features and has learned nothing: its configuration is all of it.
                file, data = name + CONFIGURATION, json.dumps(error.details["configuration"]).encode()
            put(file, data)
            digest = hashlib.sha256(data).hexdigest()
            index["models"].append({"model": name, "file": file, "bytes": len(data), "sha256": digest})
        put(INDEX, json.dumps(index, indent=2).encode())
    size = sum(model["bytes"] for model in index["models"])
    tell(index, as_json, f"{to}: {len(index['models']):,} models, {size:,} bytes")
    if index["failed"]:
        failed = "; ".join(f"{one['model']}: {one['error']}" for one in index["failed"])
        raise click.ClickException(f"{to} lacks {len(index['failed']):,} models: {failed}")


@click.command(epilog="Example: hinged restore monday.tar.gz --model spam")
@click.argument("backup", metavar="FROM", type=PLACE)
@click.option(
    "--model", "only", multiple=True, metavar="NAME", help="Restore only this model. May be given several times."
)
@click.option("--skip-existing", is_flag=True, help="Skip models that the server already has.")
@as_lines
@asks
def restore(client: Client, *, backup: Path, only: tuple[str, ...], skip_existing: bool, as_json: bool) -> None:
    """Create the models of a backup on the server. Models on the server are never overwritten.

    The command checks all files before it creates the first model. Each model's log begins again at position 1.
    """
    with opened(backup) as get:
        models = read_index(get, backup)
        if unknown := set(only) - {model["model"] for model in models}:
            raise click.ClickException(f"{backup} has no model {', '.join(sorted(unknown))}")
        wanted = [model for model in models if not only or model["model"] in only]
        there = {summary["model"] for summary in client.models()}
        present = [model["model"] for model in wanted if model["model"] in there]
        if present and not skip_existing:
            raise click.ClickException(
                f"the server has {', '.join(present)} already: delete the models to be replaced, or use --skip-existing"
            )
        wanted = [model for model in wanted if model["model"] not in there]
        for model in wanted:
            checked(get, model, backup)
        for model in wanted:
            name, data = model["model"], checked(get, model, backup)
            if model["file"].endswith(CONFIGURATION):
                tell(client.create_model(name, **json.loads(data)), as_json, f"{name}: no examples yet")
                continue
            made = client.import_model(name, data)
            tell(made, as_json, f"{name}: {made['examples']:,} examples, {len(made['classes'])} classes")
    if present:
        write(f"skipped: {', '.join(present)}", err=True)


def now() -> str:
    """Return the present time."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@contextlib.contextmanager
def written(to: Path) -> Iterator[Put]:
    """Make a new folder or file, which gets its final name when it is complete."""
    part = to.with_name(f"{to.name}.part")
    compression = next((packing for suffix, packing in TARS.items() if to.name.endswith(suffix)), None)
    try:
        if to.exists() or part.exists():
            raise click.ClickException(f"{to if to.exists() else part} already exists")
        try:
            if compression is None:
                part.mkdir(mode=0o700)
                yield lambda name, data: (part / name).write_bytes(data)
            else:
                descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                mode: Any = f"w:{compression}"
                with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode=mode) as tar:
                    yield lambda name, data: add(tar, name, data)
            put_in_place(part, to)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            with contextlib.suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        raise click.ClickException(f"{error.filename or to}: {error.strerror}") from error


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file to a tar file."""
    facts = tarfile.TarInfo(name)
    facts.size, facts.mtime, facts.mode = len(data), int(time.time()), 0o600
    tar.addfile(facts, io.BytesIO(data))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Get]:
    """Open an existing backup."""
    try:
        if path.is_dir():
            yield lambda name: (path / name).read_bytes()
            return
        with tarfile.open(path) as tar:
            yield lambda name: read(tar, name)
    except tarfile.TarError as error:
        raise click.ClickException(f"{path} is not a backup: {error}") from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or path}: {error.strerror or error}") from error


def read(tar: tarfile.TarFile, name: str) -> bytes:
    """Read a file of a tar file. Raise KeyError if it is missing."""
    found = tar.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found.read()


def read_index(get: Get, path: Path) -> list[dict[str, Any]]:
    """Return the models that a backup lists."""
    try:
        index = json.loads(get(INDEX))
        if index["version"] != VERSION:
            raise click.ClickException(f"{path} was written by another version: {index['version']!r}")
        return [{name: str(model[name]) for name in ("model", "file", "sha256")} for model in index["models"]]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise click.ClickException(f"{path} is not a backup: it has no readable {INDEX}") from error


def checked(get: Get, model: dict[str, Any], path: Path) -> bytes:
    """Return the file of a model, after checking its digest."""
    if Path(model["file"]).name != model["file"]:
        raise click.ClickException(f"{path} is not a backup: it names the file {model['file']!r}")
    try:
        data = get(model["file"])
    except (OSError, KeyError) as error:
        raise click.ClickException(f"{path} lacks {model['file']}") from error
    if hashlib.sha256(data).hexdigest() != model["sha256"]:
        raise click.ClickException(f"{path}: {model['file']} has changed since the backup was written")
    return data
