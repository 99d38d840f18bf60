"""`hinged doctor`: one page about this machine and its server, for a bug report."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import socket
import statistics
import tempfile
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import httpx

from hinged.client.client import URL
from hinged.commands.options import DIRECTORY
from hinged.commands.writing import write
from hinged.extras import needed
from hinged.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARIES = ("numba", "llvmlite", "numpy", "fastapi", "pydantic", "uvicorn", "redis", "scikit-learn", "river")
WRITES, WRITE_BYTES = 20, 4096
"""Number of writes whose fsync is timed, and their size. A learn request waits for such a write."""
ANSWER_S = 3.0  # seconds that the server may take
SECRET = re.compile(r"TOKEN|PASSWORD|SECRET|KEY$")


def _local_address() -> str:
    """Return the address of the server that these settings start on this machine."""
    port = os.environ.get("HINGED_PORT", "")
    return f"http://127.0.0.1:{port}" if re.fullmatch("[1-9][0-9]{0,4}", port) else URL


@click.command(epilog="Example: hinged doctor > report.txt")
@click.option(
    "--url",
    envvar="HINGED_URL",
    default=_local_address,
    help="Address of the server.  [HINGED_URL; or HINGED_PORT, 8000, on this machine]",
)
@click.option(
    "--data-dir", type=DIRECTORY, envvar="HINGED_DATA_DIR", default=Path("data"), help="Folder of its data.  [data]"
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def doctor(*, url: str, data_dir: Path, as_json: bool) -> None:
    """Describe this machine, the settings and the server on one page.

    The page has no keys, passwords or examples. The time of an fsync is measured in the folder of the data.
    """
    found = {title: _tried(look) for title, look in _looks(url, data_dir).items()}
    if as_json:
        write(json.dumps(found, ensure_ascii=False))
        return
    for title, lines in found.items():
        write(title)
        for name, value in lines.items():
            write(f"  {name:<18} {value}")


def _looks(url: str, data_dir: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the parts of the page, each with the function that finds its lines."""
    return {
        "versions": _versions,
        "machine": _machine,
        "compiled code": _compiled,
        "disk": lambda: _disk(data_dir),
        "settings": _settings,
        "server": lambda: _server(url),
    }


def _tried(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the lines of a part, or the error that prevented it. A broken part must not hide the rest."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001  a page for a bug report tells what is broken
        return {"error": f"{type(error).__name__}: {error}"}


def _versions() -> dict[str, Any]:
    found = {"hinged": __version__, "python": platform.python_version(), "system": platform.platform()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _machine() -> dict[str, Any]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, Any] = {"processor": platform.machine(), "processors": usable}
    if hasattr(os, "getloadavg"):
        found["load"] = " ".join(f"{load:.1f}" for load in os.getloadavg())
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory"] = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB"
    return found | {"clock": datetime.now(UTC).isoformat(timespec="seconds")}


def _compiled() -> dict[str, Any]:
    with needed("solvers", "the folder of compiled code"):
        from hinged.solvers.jit import cache  # noqa: PLC0415  only this part imports numba

    folder = cache.FOLDER
    return {
        "folder": str(folder),
        "functions": sum(1 for _ in folder.rglob(f"*{cache.SUFFIX}")),
        "of the wheel": "yes" if cache.BROUGHT.exists() else "no",
    }


def _disk(data_dir: Path) -> dict[str, Any]:
    there = next(folder for folder in (data_dir.absolute(), *data_dir.absolute().parents) if folder.exists())
    usage = shutil.disk_usage(there)
    found = {
        "data": f"{data_dir.absolute()}{'' if data_dir.exists() else ' (not created yet)'}",
        "free": f"{usage.free / 2**30:.1f} of {usage.total / 2**30:.1f} GiB",
        "fsync": f"{1e3 * _fsync_s(there):.2f} ms, the median of {WRITES} writes of {WRITE_BYTES} bytes",
    }
    for file in sorted(data_dir.glob("*")) if data_dir.exists() else ():
        if file.is_file():
            found[file.name] = f"{file.stat().st_size:,} bytes"
    return found


def _fsync_s(folder: Path) -> float:
    """Return the median time, in seconds, of a write with fsync."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(WRITES):
            began = time.perf_counter()
            file.write(bytes(WRITE_BYTES))
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def _settings() -> dict[str, Any]:
    """Return the environment variables HINGED_*, without secrets and passwords in addresses."""
    found = {name: value for name, value in sorted(os.environ.items()) if name.startswith("HINGED_")}
    hidden = {name: "set" if SECRET.search(name) else re.sub("//.*@", "//...@", v) for name, v in found.items()}
    return hidden or {"HINGED_*": "none is set"}


def _server(url: str) -> dict[str, Any]:
    address = httpx.URL(url)
    host, port = address.host, address.port or (443 if address.scheme == "https" else 80)
    found: dict[str, Any] = {"address": str(address.copy_with(username=None, password=None))}
    try:
        socket.create_connection((host, port), timeout=ANSWER_S).close()
    except OSError as error:
        return found | {"port": f"{port}: no server answers ({error.strerror or error})"}
    answer = httpx.get(f"{url.rstrip('/')}/readyz", timeout=ANSWER_S)
    found |= {"port": f"{port}: open", "readyz": f"{answer.status_code} {answer.text[:200]}"}
    if "date" in answer.headers:
        ahead = (parsedate_to_datetime(answer.headers["date"]) - datetime.now(UTC)).total_seconds()
        found["clock"] = f"{ahead:+.0f} s from this machine's"
    return found
