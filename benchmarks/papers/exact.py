"""Exact increments compared with training from the start: Diehl and Cauwenberghs, IJCNN 2003, tables III and IV.

    PYTHONPATH=.:benchmarks python benchmarks/papers/exact.py --data FOLDER

Pima Indians, 768 examples, standardised features, K = exp(-|x - y|^2 / sigma^2). Each table starts at the middle row
and goes to the next larger and the next smaller C or kernel width. "From nothing" learns one example after another, and
"together" learns all examples at once. Events are changes of the margin set during the path. Seconds are CPU time of
one thread, as medians of --runs runs. The last part measures one increment of a machine with 5,000 examples.
"""

import time
from pathlib import Path

import numpy as np
from datasets import arguments, load, rows_of
from results import Table, keep

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.dual.exact import ExactSVM
from hinged.solvers.dual.margin import EVENTS, M
from hinged.solvers.warm import warm_up

PAPER_C = {  # C: |S|, |E|, |R|, number of perturbations from the start, and of incremental perturbations
    0.354: (72, 432, 264, 1061, 58),
    0.5: (97, 401, 270, 1086, 67),
    0.707: (121, 364, 283, 1119, 60),
    1.0: (150, 328, 290, 825, None),
    1.41: (188, 284, 296, 1164, 73),
    2.0: (223, 244, 301, 944, 64),
    2.83: (247, 212, 309, 1198, 53),
}
PAPER_SIGMA2 = {  # sigma^2: |S|, |E|, |R|, number of perturbations from the start, and of incremental perturbations
    1.41: (347, 260, 161, 730, 721),
    2.0: (269, 286, 213, 774, 740),
    2.83: (204, 299, 265, 813, 760),
    4.0: (150, 328, 290, 825, None),
    5.66: (109, 341, 318, 832, 286),
    8.0: (81, 356, 331, 836, 224),
    11.3: (51, 370, 347, 818, 197),
}


def timed(act):
    start = time.process_time()
    result = act()
    return time.process_time() - start, result


def new_solver(kernel, dim, C):
    solver = ExactSVM(kernel, dim, C=C)
    for _ in range(2):
        solver.add_class()
    return solver


def pima(folder):
    """Return standardised features and classes."""
    X, y, *_ = load(Path(folder), "pima")
    X = X.astype(float)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y > 0).astype(int)


def trained(X, classes, C, sigma2, *, together):
    kernel = make_kernel("rbf", 1.0 / sigma2)
    solver, rows = new_solver(kernel, X.shape[1], C), rows_of(X, kernel, np.float64)
    learn = solver.learn_together if together else solver.learn
    learn(rows, classes, np.arange(len(classes)))
    return solver


def sets(solver):
    """Return |S|, |E|, |R|."""
    margin = int(solver.margins[0].counts[M])
    error = int((solver.machine.alpha[0, : solver.slots] != 0).sum()) - margin
    return margin, error, solver.live - margin - error


def events(solver):
    return int(solver.margins[0].counts[EVENTS])


def walk(paper, name, change, start, runs):
    """Measure one table, from the middle row to both ends."""
    values = list(paper)
    middle = len(values) // 2
    figures = {value: {"path": [], "nothing": [], "together": []} for value in values}
    for _ in range(runs):
        for direction in (values[middle:], values[middle::-1]):
            solver = start(direction[0], together=True)
            for value in direction[1:]:
                before = events(solver)
                seconds, _ = timed(lambda s=solver, v=value: change(s, v))
                figures[value]["path"].append(seconds)
                figures[value] |= {"events": events(solver) - before, "sets": sets(solver)}
        for value in values:
            for way in ("nothing", "together"):
                seconds, fresh = timed(lambda v=value, w=way: start(v, together=w == "together"))
                figures[value][way].append(seconds)
                figures[value][f"{way} events"] = events(fresh)
                if value == values[middle]:
                    figures[value]["sets"] = sets(fresh)
    counts = [f"{prefix}{what}" for what in ("S / E / R", "events of the path", "events from nothing")
              for prefix in ("", "paper: ")]  # fmt: skip
    times = "path, ms", "from nothing, ms", "together, ms", "nothing / path"
    table = Table(name, *counts, *times, title=f"Another {name}")
    ratios = []
    for value in values:
        f, (s, e, r, full, step) = figures[value], paper[value]
        path, nothing, together = (
            1000 * np.median(f[way]) if f[way] else None for way in ("path", "nothing", "together")
        )
        line = [value, " / ".join(map(str, f["sets"])), f"{s} / {e} / {r}", f.get("events", ""), step or ""]
        line += [f["nothing events"], full, "" if path is None else f"{path:.1f}", f"{nothing:.1f}", f"{together:.1f}"]
        if path is not None:
            ratios.append(nothing / path)
            line.append(f"{ratios[-1]:.1f}")
        else:
            line.append("")
        table.add(*line)
    print(f"\nFrom nothing takes {np.median(ratios):.1f} times the path's seconds in the median.")
    return table


def increments(C):
    """Return (ms of each of 200 increments with 5,000 examples, margin vectors, events per increment)."""
    random = np.random.default_rng(0)
    X = random.standard_normal((5200, 8))
    classes = (X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * random.standard_normal(5200) > 0).astype(int)
    kernel = make_kernel("rbf", 0.1)
    solver, rows = new_solver(kernel, 8, C), rows_of(X, kernel, np.float64)
    solver.learn(rows.part(0, 5000), classes[:5000], np.arange(5000))
    before, times = events(solver), []
    for k in range(5000, 5200):
        seconds, _ = timed(lambda k=k: solver.learn(rows.part(k, k + 1), classes[k : k + 1], np.array([k])))
        times.append(1000 * seconds)
    return times, sets(solver)[0], (events(solver) - before) / 200


def main():
    options = arguments(__doc__).parse_args()
    warm_up("exact", np.float64)
    X, classes = pima(options.data)
    of_C = walk(
        PAPER_C, "C", lambda s, v: s.change_C(v),
        lambda v, together: trained(X, classes, v, 4.0, together=together), options.runs,
    )  # fmt: skip
    of_sigma = walk(
        PAPER_SIGMA2, "sigma^2", lambda s, v: s.change_kernel(make_kernel("rbf", 1.0 / v)),
        lambda v, together: trained(X, classes, 1.0, v, together=together), options.runs,
    )  # fmt: skip
    times, margin, each = increments(10.0)
    title = f"One increment beside 5,000 examples and {margin} margin vectors"
    increment = Table("mean, ms", "median, ms", "95 of 100 within, ms", "events", title=title)
    figures = np.mean(times), np.median(times), np.quantile(times, 0.95)
    increment.add(*(f"{ms:.2f}" for ms in figures), f"{each:.1f}")
    keep("exact", of_C, of_sigma, increment)


if __name__ == "__main__":
    main()
