"""CPU time of a prediction, per row and support vector, of all solvers with points.

    PYTHONPATH=.:benchmarks python benchmarks/speed/predicting.py --data FOLDER [--names NAME ...] [--sets SET ...]
        [--first N]

Each solver learns the first N examples in one batch and does the finishing step. Then it predicts the test rows in one
batch, alternately over all slots and in the view's own way. The program prints the shortest time of several runs.
`exact` uses float64 kernel values, and its N is 1,500. The medians of all solvers follow at the end of each set. The
program takes about five minutes.
"""

from dataclasses import replace

import numpy as np
from datasets import arguments
from measuring import cpu
from papers.problems import problem
from results import Table, keep

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.decision import ExpansionView
from hinged.solvers.core.rows import rows_from_csr

SETS = {"banana": (1.0, 1.0), "ijcnn1": (2.0, 32.0), "adult": (0.005, 100.0), "mnist": (0.005, 1000.0)}
EXACT_FIRST, TEST = 1500, 2000
FORMS = {"bsca": {"maintenance": "merge"}}


def taught(whole, name, first):
    """Return a solver of this name that has learned and finished."""
    solver, one = whole.solver(name), whole.first(first)
    solver.learn(one.rows, one.classes, np.arange(len(one.rows)))
    solver.finish()
    return solver


def test_rows(whole, dtype):
    rows = whole.test.part(0, min(TEST, len(whole.test)))
    if rows.values.dtype == dtype:
        return rows
    return rows_from_csr(rows.indptr, rows.indices, rows.values, whole.kernel, rows.dim, dtype)


def as_learned(whole, name):
    """Return the problem in the precision of a solver."""
    dtype = SOLVERS[name].fixed.get("dtype", np.float32)
    if dtype == np.float32:
        return whole
    rows = whole.rows
    return replace(whole, rows=rows_from_csr(rows.indptr, rows.indices, rows.values, whole.kernel, rows.dim, dtype))


def predicted(solver, rows, runs):
    """Return (over all slots, the view's own way): ns per row and support vector. Both ways give the same bits."""
    view = solver.view()
    vectors = int((view.coefficients() != 0).any(axis=0).sum())
    seconds = []
    for _ in range(runs):
        whole, fresh = solver.view(), solver.view()
        whole.asked.work = -np.inf
        (slow, before), (quick, after) = cpu(lambda v=whole: v.decision(rows)), cpu(lambda v=fresh: v.decision(rows))
        np.testing.assert_array_equal(before, after)
        seconds.append((slow, quick))
    return view.n, vectors, *(1e9 * np.min(seconds, axis=0) / (len(rows) * max(vectors, 1)))


def main():
    parser = arguments(__doc__)
    parser.add_argument("--names", nargs="+", choices=SOLVERS, default=[name for name in SOLVERS if name != "auto"])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--first", type=int, default=8000, help="examples that are learned")
    options = parser.parse_args()
    table = Table("set", "solver", "slots", "support vectors", "over all slots, ns", "the view's own way, ns")
    for name in options.sets:
        gamma, C = SETS[name]
        whole, found = replace(problem(options.data, name, gamma, C).shuffled(0), forms=FORMS), []
        for kind in options.names:
            first = EXACT_FIRST if kind == "exact" else options.first
            solver = taught(as_learned(whole, kind), kind, first)
            if not isinstance(solver.view(), ExpansionView):
                continue
            line = predicted(solver, test_rows(whole, solver.dtype), 2 * options.runs)
            found.append(line[2:])
            table.add(name, kind, f"{line[0]:,}", f"{line[1]:,}", f"{line[2]:.2f}", f"{line[3]:.2f}")
        slow, quick = np.median(found, axis=0)
        table.add(name, "*median*", None, None, f"{slow:.2f}", f"{quick:.2f}")
    keep("predicting", table)


if __name__ == "__main__":
    main()
