"""pyproject.toml declares every imported package: in the extra that a block of `needed` names, or as a required
package.
"""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from itertools import accumulate

import pytest

from tests.helpers.server import ROOT

pytestmark = pytest.mark.long

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = packages_distributions()
FOLDERS = {"hinged": "hinged", "service": "hinged.service", "solvers": "hinged.solvers"}
FILES = {
    ".".join((name, *path.relative_to(ROOT / top).with_suffix("").parts)).removesuffix(".__init__"): path
    for top, name in FOLDERS.items()
    for path in (ROOT / top).rglob("*.py")
    if not {"service", "solvers"} & set(path.relative_to(ROOT / top).parts[:1])  # skip the links in hinged/
}
USERS = ("hinged", "hinged.__main__", "hinged.client.shapes", "hinged.river", "hinged.sklearn")
"""The modules that users import or run."""
BY_NAME = {"uvloop", "wordllama"}
"""Packages that no module here imports: other libraries import them by name, or only their files are read."""


def distributions(package):
    """Return the distributions that may contain a package of this name."""
    return {normal(name) for name in DISTRIBUTIONS.get(package, [package])}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def declared(extra=None):
    """Return the distributions that an extra declares, also through other extras. Without an extra, return the required
    packages.
    """
    requirements = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = set(declared()) if extra else set()
    for requirement in requirements:
        name, more = re.match(r"([\w.-]+)(?:\[([\w,-]+)])?", requirement).groups()
        found |= set().union(*map(declared, more.split(","))) if name == PROJECT["name"] else {normal(name)}
    return found


def named(call):
    """Return the extras that a call of `needed` or `require` names."""
    parts = (call.func, *call.args) if isinstance(call, ast.Call) else ()
    if not any(isinstance(part, ast.Name) and part.id in ("needed", "require") for part in parts):
        return frozenset()
    return frozenset([next(part.value for part in parts if isinstance(part, ast.Constant))])


def imports(node, file, extras=frozenset()):
    """Yield the imported names, each with the extras that a block of `needed` names. file: all extras that the file
    names.
    """
    inner = ast.iter_child_nodes(node)
    match node:
        case ast.Import(names):
            yield from ((alias.name, extras) for alias in names)
        case ast.ImportFrom(module, names):
            inside = [f"{module}.{alias.name}" for alias in names]
            yield from ((name if name in FILES else module, extras) for name in inside)
        case ast.Constant(str(name)) if name in FILES:  # a module that is imported by its name, at its first use
            yield name, extras
        case ast.If(ast.Name("TYPE_CHECKING"), _, inner):
            pass
        case ast.With([ast.withitem(call)]):
            extras = named(call) or extras
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            extras = file  # a function may rely on a check in another function of the file
    for part in inner:
        yield from imports(part, file, extras)


@cache
def imports_of(path):
    tree = ast.parse(path.read_text())
    return list(imports(tree, frozenset().union(*map(named, ast.walk(tree)))))


def reached(entries):
    """Return each module that the entries import, directly or not, with the extras that are named on the way."""
    todo, seen = list(entries), set()
    while todo:
        module, extras = todo.pop()
        if (module, extras) not in seen:
            seen.add((module, extras))
            for name, more in imports_of(FILES[module]):
                todo += [(part, extras | more) for part in accumulate(name.split("."), "{}.{}".format) if part in FILES]
    return seen


def installed():
    """Yield every module with the extras that are installed when it is imported.

    A module that no other module imports is a program, and has the extra of its folder.
    """
    found = reached((module, frozenset()) for module in USERS)
    programs = FILES.keys() - {module for module, _ in found}
    rooms = {"hinged.service": frozenset(["server"]), "hinged.solvers": frozenset(["solvers"])}
    return found | reached((module, rooms.get(".".join(module.split(".")[:2]), frozenset())) for module in programs)


def third_party(names):
    """Return the packages among imported names that belong neither to Python nor to this project."""
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"hinged", "benchmarks"}


ALONE = "hinged.commands.verify"
"""A program that imports nothing of hinged. Its caller in hinged names the extra."""


def test_an_extra_that_brings_a_module_declares_all_packages_that_the_module_imports():
    undeclared = {
        f"{module} imports {package}, which {sorted(extras | more) or 'no extra'} does not bring"
        for module, extras in installed()
        for name, more in imports_of(FILES[module])
        for package in third_party([name])
        if module != ALONE and not distributions(package) & set().union(*map(declared, (extras | more) or [None]))
    }
    assert undeclared == set()


def test_every_declared_package_is_imported():
    imported = third_party(name for file in FILES.values() for name, _ in imports_of(file))
    assert (declared("all") | declared("ray")) - set().union(*map(distributions, imported)) == BY_NAME


def test_dev_all_declares_every_package_that_the_tests_import():
    files = list((ROOT / "tests").rglob("*.py"))
    imported = third_party(name for file in files for name, _ in imports_of(file)) - {"tests"}
    assert {package for package in imported if not distributions(package) & declared("dev-all")} == set()
