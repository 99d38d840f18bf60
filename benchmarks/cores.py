"""The time of a race on one core and on two cores, beside LASVM with the same scaled columns.

    PYTHONPATH=.:benchmarks python benchmarks/cores.py --data DATA

The three fits take turns, and the table shows medians of the time on the clock. The race has the same bits on one and
on two cores, which the benchmark checks.
"""

import statistics
import sys
import time

import numpy as np
from datasets import arguments, load
from results import Table, keep

from hinged.sklearn import HingedClassifier

SETS = ("adult", "ijcnn1", "usps", "banana", "elec2")
FITS = {"LASVM": {"solver": "lasvm"}, "race": {}, "race, two cores": {"n_jobs": 2}}


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    table = Table("data", "rows", "LASVM, s", "race, s", "on two cores, s", "one / two cores", "two cores / LASVM")
    for name in SETS:
        X, y = (part[: options.rows] for part in load(options.data, name)[:2])
        seconds = {fit: [] for fit in FITS}
        found = {}
        for run in range(options.runs + 1):  # the first run compiles
            for fit, parameters in FITS.items():
                began = time.perf_counter()
                model = HingedClassifier(**parameters).fit(X, y)
                if run:
                    seconds[fit].append(time.perf_counter() - began)
                found[fit] = model.decision_function(X[:500])
        if not np.array_equal(found["race"], found["race, two cores"]):
            sys.exit(f"{name}: two cores give other decision values")
        lasvm, one, two = (statistics.median(times) for times in seconds.values())
        table.add(name, len(y), *(f"{t:.2f}" for t in (lasvm, one, two)), f"{one / two:.2f}", f"{two / lasvm:.2f}")
    keep("cores", table)


if __name__ == "__main__":
    main()
