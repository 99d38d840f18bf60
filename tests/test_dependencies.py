"""What is imported is declared in pyproject.toml, by the extra that a block of `needed` names, or without one."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from itertools import accumulate

from tests.helpers.server import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = packages_distributions()
FOLDERS = {"hinged": "hinged", "service": "hinged.service", "solvers": "hinged.solvers"}
FILES = {
    ".".join((name, *path.relative_to(ROOT / top).with_suffix("").parts)).removesuffix(".__init__"): path
    for top, name in FOLDERS.items()
    for path in (ROOT / top).rglob("*.py")
    if not {"service", "solvers"} & set(path.relative_to(ROOT / top).parts[:1])  # the links
}
USERS = ("hinged", "hinged.__main__", "hinged.client.shapes", "hinged.river", "hinged.sklearn")
"""What users import and run."""
BY_NAME = {"uvloop"}
"""What is found by others under its name, and imported nowhere here."""


def distributions(package):
    """Those that may bring a package of this name."""
    return {normal(name) for name in DISTRIBUTIONS.get(package, [package])}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def declared(extra=None):
    """The distributions that come with an extra and all that it names, or with none."""
    requirements = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = set(declared()) if extra else set()
    for requirement in requirements:
        name, more = re.match(r"([\w.-]+)(?:\[([\w,-]+)])?", requirement).groups()
        found |= set().union(*map(declared, more.split(","))) if name == PROJECT["name"] else {normal(name)}
    return found


def named(call):
    """The extras that a call of `needed` or `require` names."""
    parts = (call.func, *call.args) if isinstance(call, ast.Call) else ()
    if not any(isinstance(part, ast.Name) and part.id in ("needed", "require") for part in parts):
        return frozenset()
    return frozenset([next(part.value for part in parts if isinstance(part, ast.Constant))])


def imports(node, file, extras=frozenset()):
    """Names that are imported, each with the extras that bring it; file: those that the whole file names."""
    inner = ast.iter_child_nodes(node)
    match node:
        case ast.Import(names):
            yield from ((alias.name, extras) for alias in names)
        case ast.ImportFrom(module, names):
            inside = [f"{module}.{alias.name}" for alias in names]
            yield from ((name if name in FILES else module, extras) for name in inside)
        case ast.If(ast.Name("TYPE_CHECKING"), _, inner):
            pass
        case ast.With([ast.withitem(call)]):
            extras = named(call) or extras
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            extras = file  # it may rely on what another function of the file has made sure of
    for part in inner:
        yield from imports(part, file, extras)


@cache
def imports_of(path):
    tree = ast.parse(path.read_text())
    return list(imports(tree, frozenset().union(*map(named, ast.walk(tree)))))


def reached(entries):
    """Each module that these reach, with the extras that were asked for on the way."""
    todo, seen = list(entries), set()
    while todo:
        module, extras = todo.pop()
        if (module, extras) not in seen:
            seen.add((module, extras))
            for name, more in imports_of(FILES[module]):
                todo += [(part, extras | more) for part in accumulate(name.split("."), "{}.{}".format) if part in FILES]
    return seen


def installed():
    """Every module with the extras with which it is imported. One that nothing imports is a program of its room."""
    found = reached((module, frozenset()) for module in USERS)
    programs = FILES.keys() - {module for module, _ in found}
    rooms = {"hinged.service": frozenset(["server"]), "hinged.solvers": frozenset(["solvers"])}
    return found | reached((module, rooms.get(".".join(module.split(".")[:2]), frozenset())) for module in programs)


def others(names):
    """The packages among imported names that are neither Python's nor ours."""
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"hinged", "benchmarks"}


def test_what_a_module_imports_comes_with_what_brought_the_module():
    undeclared = {
        f"{module} imports {package}, which {sorted(extras | more) or 'no extra'} does not bring"
        for module, extras in installed()
        for name, more in imports_of(FILES[module])
        for package in others([name])
        if not distributions(package) & set().union(*map(declared, (extras | more) or [None]))
    }
    assert undeclared == set()


def test_what_is_declared_is_imported():
    imported = others(name for file in FILES.values() for name, _ in imports_of(file))
    assert (declared("all") | declared("ray")) - set().union(*map(distributions, imported)) == BY_NAME


def test_what_the_tests_import_comes_with_dev_all():
    files = list((ROOT / "tests").rglob("*.py"))
    imported = others(name for file in files for name, _ in imports_of(file)) - {"tests"}
    assert {package for package in imported if not distributions(package) & declared("dev-all")} == set()
