"""One word means one thing: no two modules define a class of one name."""

import ast
from collections import Counter

from running import ROOT

EVENTS = [
    "Created", "Finished", "Imported", "Learned", "Offered", "Predicted", "Released", "Renewed", "Retired",
    "RolledBack", "SetAside", "Skipped",
]  # fmt: skip
"""Each is an event, and the answer that tells of it."""
TWO = [
    "Asking", "Batch", "Call", "DenseRows", "Entry", "Features", "Gate", "History", "Learner", "Lines", "Owner", "Pace",
    "Plan", "Read", "Readers", "Rule", "Server", "State", "Together", "Window",
]  # fmt: skip
THREE = ["Asked", "Choice", "Elsewhere", "Tally", "Way"]
MORE = {"Place": 5, "Parameters": 6}
TAKEN = dict.fromkeys(EVENTS + TWO, 2) | dict.fromkeys(THREE, 3) | MORE
"""The modules that define a name, where there are several still. The list only becomes shorter."""


def test_a_class_name_is_defined_by_one_module():
    files = {path.resolve() for top in ("hinged", "service", "solvers") for path in (ROOT / top).rglob("*.py")}
    trees = [ast.parse(file.read_text()) for file in files]
    defined = Counter(
        name for tree in trees for name in {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    )
    assert {name: modules for name, modules in defined.items() if modules > 1} == TAKEN
