"""LASVM on raw Adult through named features, compared with the prepared file, after one pass and the finishing step.

    PYTHONPATH=.:benchmarks python benchmarks/named.py --data FOLDER

The raw table is adult_census.csv.gz, with null for "?". The first run uses the order of the file. Each further run
shuffles the training part. The first 1,000 examples are the warm-up. During the warm-up, whenever the number of
examples has doubled, the machine starts again with the columns and the gamma of the examples so far.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import json
import time

import numpy as np
from datasets import arguments, load
from datasets import rows_of as prepared_rows
from results import Table, keep

from hinged.readers import TableColumns, open_source
from hinged.service.data.features.records import canonical, pack_records, unpack_records
from hinged.service.data.features.vocabulary import Vocabulary
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_csr
from hinged.solvers.dual.lasvm import LASVM
from hinged.solvers.warm import warm_up

BATCH = 256
WARMUP = 1000


def census(folder):
    """Return records and classes of the training part and of the test part."""
    parts = {"train": ([], []), "test": ([], [])}
    for example in open_source(folder / "adult_census.csv.gz", choice=TableColumns("income", named=True)):
        record = {name: value for name, value in example.x.items() if value != "?"}
        records, classes = parts[record.pop("split")]
        records.append(canonical(record))
        classes.append(example.y.startswith(">50K"))
    return *parts["train"], *parts["test"]


def machine(kernel, dim, C):
    solver = LASVM(kernel, dim, C=C)
    solver.add_class()
    solver.add_class()
    return solver


class Named:
    """LASVM with a vocabulary, trained in the same way as a server's model."""

    def __init__(self, kernel, C, warmup, columns_max):
        self.name, self.C = kernel, C
        self.vocabulary = Vocabulary(warmup, columns_max)
        self.learned, self.hits = [], 0
        self.begin()

    def begin(self):
        """Start the machine again with the gamma for the columns."""
        coef0 = 1.0 if self.name == "polynomial" else 0.0
        self.kernel = make_kernel(self.name, self.vocabulary.spread.gamma(self.name), coef0=coef0)
        self.solver = machine(self.kernel, self.vocabulary.columns_max, self.C)

    def rows(self, csr):
        """Return encoded records in the form that the solver uses."""
        return rows_from_csr(*csr, self.kernel, self.vocabulary.columns_max)

    def learn(self, records, classes):
        """Predict, then learn, each record in order."""
        at = 0
        while at < len(records):
            end = min(at + (self.vocabulary.until_freeze or BATCH), at + BATCH, len(records))
            part, own = records[at:end], classes[at:end]
            rows = self.rows(self.vocabulary.encode(part))
            scores = self.solver.learn(rows, own, np.arange(at, end))
            self.hits += int(((scores[:, 0] > 0) == (own > 0)).sum())
            if self.vocabulary.warming and self.vocabulary.observe(part):
                csr = self.vocabulary.freeze()
                self.begin()
                self.solver.learn(self.rows(csr), classes[:end], np.arange(end))
            at = end
            if at == WARMUP:
                self.warm_accuracy = 100 * self.hits / at


def accuracy(scores, classes):
    return 100 * float(((scores[:, 0] > 0) == (classes > 0)).mean())


def run_named(data, order, kernel, C, columns_max):
    records, classes, test, test_classes = data
    named = Named(kernel, C, WARMUP, columns_max)
    start = time.process_time()
    named.learn([records[i] for i in order], np.array(classes, np.int64)[order])
    seconds = time.process_time() - start
    rows = named.rows(named.vocabulary.reader().encode(test))
    return figures(named.solver, rows, np.array(test_classes), seconds) | {
        "warm": named.warm_accuracy,
        "gamma": named.kernel.gamma,
        "columns": len(named.vocabulary),
    }


def figures(solver, test, classes, seconds):
    before = accuracy(solver.decision(test), classes)
    start = time.process_time()
    solver.finish()
    seconds += time.process_time() - start
    return {
        "before": before,
        "after": accuracy(solver.decision(test), classes),
        "seconds": seconds,
        "vectors": solver.certificate()["support_vectors"],
    }


def run_prepared(data, order):
    X, y, X_test, y_test = data
    kernel = make_kernel("rbf", 0.005)
    solver = machine(kernel, X.shape[1], 100.0)
    rows, classes = prepared_rows(X[order], kernel), (y[order] > 0).astype(np.int64)
    start = time.process_time()
    for begin in range(0, len(rows), BATCH):
        end = min(begin + BATCH, len(rows))
        solver.learn(rows.part(begin, end), classes[begin:end], np.arange(begin, end))
    return figures(solver, prepared_rows(X_test, kernel), y_test, time.process_time() - start)


def row(name, runs):
    """Return the cells of a table row."""

    def spread(part, digits=2):
        values = [run[part] for run in runs]
        return f"{np.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f}) %"

    warm = spread("warm", 1) if "warm" in runs[0] else ""
    gamma = f"{np.median([run['gamma'] for run in runs]):.4f}" if "gamma" in runs[0] else "0.005"
    vectors, seconds = (np.median([run[part] for run in runs]) for part in ("vectors", "seconds"))
    return name, gamma, warm, spread("before"), spread("after"), f"{vectors:,.0f}", f"{seconds:.2f}"


def costs(records):
    """Print a table of each step's microseconds per example, and of sizes."""
    table = Table("step", "", title="Costs of an example of 14 fields")

    def each(what, work):
        start = time.process_time()
        got = work()
        table.add(what, f"{1e6 * (time.process_time() - start) / len(records):.1f} us")
        return got

    vocabulary = Vocabulary(WARMUP, 4096)
    vocabulary.observe(records[:WARMUP])
    start = time.process_time()
    vocabulary.freeze()
    table.add("freezing, once", f"{1e3 * (time.process_time() - start):.1f} ms")
    each("canonical form", lambda: [canonical(record) for record in records])
    for size in (1, 16, BATCH):
        batches = [records[at : at + size] for at in range(0, len(records), size)]
        each(f"encoding in batches of {size}", lambda batches=batches: [vocabulary.encode(batch) for batch in batches])
    packed = each("packing as JSON", lambda: json.dumps(pack_records(records)))
    each("unpacking", lambda: unpack_records(json.loads(packed)))
    for what, text in (("packed", packed), ("as plain JSON", json.dumps(records))):
        table.add(what, f"{len(text) / len(records):.0f} bytes")
    return table


def main():
    options = arguments(__doc__).parse_args()
    warm_up("lasvm")
    raw, prepared = census(options.data), load(options.data, "adult")
    if not np.array_equal(np.array(raw[1]), prepared[1] > 0):
        raise SystemExit("the two files do not hold the same people in the same order")
    costed = costs(raw[0])
    n = len(raw[0])
    orders = [np.arange(n)] + [np.random.default_rng(seed).permutation(n) for seed in range(1, options.runs)]
    heads = "gamma", "warm-up", "one pass", "finished", "support vectors", "CPU seconds"
    table = Table("features, kernel, C", *heads, title="Named features beside the prepared file")
    table.add(*row("prepared, rbf, C = 100", [run_prepared(prepared, order) for order in orders]))
    for kernel, C, columns_max in (
        ("rbf", 1.0, 4096),
        ("rbf", 1.0, 1024),
        ("rbf", 0.3, 1024),
        ("rbf", 10.0, 1024),
        ("laplacian", 1.0, 1024),
        ("polynomial", 0.1, 1024),
    ):
        runs = [run_named(raw, order, kernel, C, columns_max) for order in orders]
        table.add(*row(f"named, {columns_max:,} columns, {kernel}, C = {C:g}", runs))
    keep("named", costed, table)


if __name__ == "__main__":
    main()
