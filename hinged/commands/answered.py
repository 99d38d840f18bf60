"""The file that `hinged predict --csv` writes: the rows of the user's file, with the server's answers in further
columns. The page writes the same file (service/page/static/answered.js).
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from hinged.commands.showing import shown_label
from hinged.commands.writing import CsvTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hinged.readers import TableSource


def write_answers(answers: Iterable[list[Any]], source: TableSource | None) -> None:
    """Write the results of requests about the rows of a table, or about examples, which have only ids."""
    rows = None if source is None else (row for _, row in source.whole_rows())
    table, names = None, dict[str, str]()
    for results in answers:
        own = [*itertools.islice(rows, len(results))] if rows else [{"id": result["id"]} for result in results]
        cells = [cells_of(result) for result in results]
        if table is None:
            for name in cells[0]:
                names[name] = unused(name, {*own[0], *names.values()})
            table = CsvTable([*own[0], *names.values()], "," if source is None else source.delimiter)
        new = ({names[name]: theirs.get(name) for name in names} for theirs in cells)
        table.write({**mine, **theirs} for mine, theirs in zip(own, new, strict=True))


def ranked(answers: Iterable[list[Any]]) -> Iterator[list[Any]]:
    """Yield all decisions with their ranks; after an error, the decisions before it, and then the error. Rank 1 is the
    row that gains most by a look, or has the highest expected cost if no row needs a look.
    """
    results, error = list[Any](), None
    try:
        for several in answers:
            results += several
    except Exception as problem:  # noqa: BLE001  raised below
        error = problem
    by = "gain" if any("gain" in result for result in results) else "cost"
    worth = [result for result in results if result.get(by) is not None]
    for rank, result in enumerate(sorted(worth, key=lambda result: -result[by]), 1):
        result["rank"] = rank
    yield results
    if error is not None:
        raise error


def cells_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that an answer fills, by column."""
    decides = "decision" in result
    said = result["decision" if decides else "prediction"]
    cells = {"decision" if decides else "prediction": None if said is None else shown_label(said)}
    cells["probability"] = result["probability"]
    cells |= {f"probability of {name}": chance for name, chance in result.get("probabilities", {}).items()}
    if decides:
        cells |= {name: result.get(name) for name in ("cost", "reason", "gain", "rank", "question")}
    if "set" in result:
        cells["set"] = json.dumps(result["set"], ensure_ascii=False, separators=(",", ":"))
    return cells if decides else cells | {"outside": ", ".join(map(str, result.get("outside", ())))}


def unused(name: str, used: Iterable[str]) -> str:
    """Return a name that the user's file does not have: "prediction", "prediction 2", and so on."""
    return next(free for n in itertools.count(1) if (free := name if n == 1 else f"{name} {n}") not in used)
