"""What is installed only on demand: who lacks it is told the name of the extra that brings it."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS = "hinged"


class Lacking(ImportError):
    """A package is not installed; one sentence that says which extra brings it."""


@contextmanager
def needed(extra: str, what: str) -> Iterator[None]:
    """Turn the lack of a package while the block imports, or one too old, into Lacking; what: who needs it."""
    try:
        yield
    except ImportError as error:
        package = (error.name or OURS).partition(".")[0]
        if package == OURS:
            raise
        if isinstance(error, ModuleNotFoundError):
            raise lacking(extra, what, package) from error
        message = f'{what} needs another version of the package {package}: pip install --upgrade "hinged[{extra}]"'
        raise Lacking(message, name=package) from error


def require(extra: str, what: str, *packages: str) -> None:
    """Lacking if one of these packages is not installed; nothing is imported, for that may take a while."""
    for package in packages:
        if find_spec(package) is None:
            raise lacking(extra, what, package)


def lacking(extra: str, what: str, package: str) -> Lacking:
    """The error for the lack of this package."""
    return Lacking(
        f'{what} needs the package {package}, which is not installed: pip install "hinged[{extra}]"', name=package
    )
