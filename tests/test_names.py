"""No two modules define a class of the same name."""

import ast
from collections import Counter

import pytest

from tests.helpers.server import ROOT


@pytest.mark.long
def test_one_module_defines_each_class_name():
    files = {path.resolve() for top in ("hinged", "service", "solvers") for path in (ROOT / top).rglob("*.py")}
    trees = [ast.parse(file.read_text()) for file in files]
    defined = Counter(
        name for tree in trees for name in {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    )
    assert [name for name, modules in defined.items() if modules > 1] == []
