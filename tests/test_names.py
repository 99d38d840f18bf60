"""One word means one thing: no two modules define a class of one name."""

import ast
from collections import Counter

from tests.helpers.server import ROOT

TWO = ["Server", "State"]
TAKEN = dict.fromkeys(TWO, 2)
"""The modules that define a name, where there are several still. The list only becomes shorter."""


def test_a_class_name_is_defined_by_one_module():
    files = {path.resolve() for top in ("hinged", "service", "solvers") for path in (ROOT / top).rglob("*.py")}
    trees = [ast.parse(file.read_text()) for file in files]
    defined = Counter(
        name for tree in trees for name in {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    )
    assert {name: modules for name, modules in defined.items() if modules > 1} == TAKEN
