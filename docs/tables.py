"""The tables of the documents that follow from the code: `python docs/tables.py` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path

from hinged.solvers.catalogue import SOLVERS

PAGE = Path(__file__).parent / "solvers.md"
HEAD = "| parameter | solvers | default | allowed | meaning |\n|---|---|---|---|---|\n"


def parameters() -> str:
    """What each solver's parameters are, a row for those that are the same."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, entry in SOLVERS.items():
        for each in entry.parameters.values():
            default = json.dumps(each.default).removesuffix(".0")
            allowed = each.rule.allowed.replace("None", "null").replace("True or False", "true or false")
            rows.setdefault((f"`{each.name}`", default, allowed, each.meaning), []).append(f"`{name}`")
    lines = [(name, ", ".join(solvers), *rest) for (name, *rest), solvers in rows.items()]
    return HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written(page: str) -> str:
    """The page with its table of parameters as it should be."""
    before, _, after = page.partition(HEAD.splitlines()[0])
    return before + parameters() + after.partition("\n\n")[2].join(["\n", ""])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
