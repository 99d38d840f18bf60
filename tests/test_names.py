"""No two modules define a class of the same name."""

import ast
from collections import Counter

from tests.helpers.server import ROOT

TWO = ["Server", "State"]
TAKEN = dict.fromkeys(TWO, 2)
"""Number of modules that define a name, for names that several modules still define. Remove names from this list; do
not add names."""


def test_one_module_defines_each_class_name():
    files = {path.resolve() for top in ("hinged", "service", "solvers") for path in (ROOT / top).rglob("*.py")}
    trees = [ast.parse(file.read_text()) for file in files]
    defined = Counter(
        name for tree in trees for name in {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    )
    assert {name: modules for name, modules in defined.items() if modules > 1} == TAKEN
