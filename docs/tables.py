"""The tables of documents that follow from the code. Run `python docs/tables.py` after a change."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.families import KERNELS

PAGE = Path(__file__).parent / "reference/solvers.md"
KERNELS_HEAD = "| type | k(x, z) |\n|---|---|\n"
HEAD = "| parameter | solvers | default | allowed | meaning |\n|---|---|---|---|---|\n"


def parameters() -> str:
    """Return the table of all parameters, with one row for solvers that share a declaration."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, entry in SOLVERS.items():
        for each in entry.parameters.values():
            default = json.dumps(each.default).removesuffix(".0")
            allowed = each.rule.allowed.replace("None", "null").replace("True or False", "true or false")
            rows.setdefault((f"`{each.name}`", default, allowed, each.meaning), []).append(f"`{name}`")
    lines = [(name, ", ".join(solvers), *rest) for (name, *rest), solvers in rows.items()]
    return HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def kernels() -> str:
    """Return the table of the kernels' formulas."""
    signs = {"|": "\\|", "^2": "²", "_1": "₁"}
    rows = (
        (name, reduce(lambda text, sign: text.replace(*sign), signs.items(), family.formula))
        for name, family in KERNELS.items()
    )
    return KERNELS_HEAD + "".join(f"| `{name}` | {formula} |\n" for name, formula in rows)


def written(page: str) -> str:
    """Return the page with its tables up to date."""
    for head, table in ((HEAD, parameters()), (KERNELS_HEAD, kernels())):
        before, _, after = page.partition(head.splitlines()[0])
        page = before + table + after.partition("\n\n")[2].join(["\n", ""])
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
