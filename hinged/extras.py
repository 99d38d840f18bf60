"""Optional packages. If a package is missing, the error says which extra installs it. Also modules whose import can
wait.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS = "hinged"


class Lacking(ImportError):
    """A package is not installed. The message says which extra installs it."""


@contextmanager
def needed(extra: str, what: str) -> Iterator[None]:
    """Raise Lacking if an import in the block fails, or if an imported version is too old. what: the part that needs
    it.
    """
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
    """Raise Lacking if one of these packages is not installed. The packages are not imported, because an import may be
    slow.
    """
    for package in packages:
        if find_spec(package) is None:
            raise lacking(extra, what, package)


def lacking(extra: str, what: str, package: str) -> Lacking:
    """Return the error for this missing package."""
    return Lacking(
        f'{what} needs the package {package}, which is not installed: pip install "hinged[{extra}]"', name=package
    )


class Later:
    """A module that is imported at its first use."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the module. A copy of this object asks for special methods before it has a module."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._module), name)
