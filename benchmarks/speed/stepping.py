"""Targets 5 to 8: single examples, predictions, growth, exact increments. Not a program."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from measuring import cpu, rounds, wall
from numba import njit
from papers.exact import PAPER_C, increments, pima, trained
from papers.problems import BATCH, compile_all, problem
from targets import Line, middle

from hinged.solvers.core.decision import ExpansionView
from hinged.solvers.core.kernels import make_kernel, point_row
from hinged.solvers.core.points import bytes_of as bytes_of_points
from hinged.solvers.core.points import points_from_rows
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.warm import warm_up

SINGLE = ("lasvm", "lasvm-nc", "bsca")
FIRST = 300  # number of first examples: their time is mostly the overhead of the call
SUPPORT_VECTORS, PREDICTED = 11_000, 1_000


def single(options):
    whole = problem(options.data, "adult", 0.005, 100)
    compile_all(whole, SINGLE)
    for name in SINGLE:
        both = {size: partial(stream_seconds, whole, name, size) for size in (1, 256)}
        found = rounds(both, {}, options.runs)
        one, batched = (np.median(found[size], axis=0) for size in (1, 256))
        call = one[0] - batched[0]
        ratio = (one[1] - call) / batched[1]
        yield Line(
            "5", f"{name} on Adult, one example a call, beside 256", "1.5 times, plus the call",
            f"{ratio:.2f} times ({one[1]:.1f} us, of which the call {call:.1f}, beside {batched[1]:.1f})", ratio <= 1.5,
        )  # fmt: skip


def stream_seconds(whole, name, size, run):
    """Return us per example in batches of `size`: for the first FIRST examples, and for all."""
    one = whole.shuffled(run // 2)
    solver, n = one.solver(name), len(one.rows)
    parts = [(one.rows.part(b, min(b + size, n)), one.classes[b : b + size], np.arange(b, min(b + size, n)))
             for b in range(0, n, size)]  # fmt: skip

    def learn_all(parts):
        for part in parts:
            solver.learn(*part)

    first = -(-FIRST // size)
    beginning, _ = cpu(lambda: learn_all(parts[:first]))
    rest, _ = cpu(lambda: learn_all(parts[first:]))
    return 1e6 * beginning / (first * size), 1e6 * (beginning + rest) / n


def view_of(rows, kernel, random):
    """Return a view of these points with random coefficients."""
    alpha = random.standard_normal((1, len(rows)))
    return ExpansionView(kernel, points_from_rows(rows, rows.dim), len(rows), alpha, np.zeros(1), np.zeros(1), rows.dim)


def prediction(options):
    random = np.random.default_rng(0)
    for dim in (123, 784):
        kernel = make_kernel("rbf", 0.5 / dim)
        A, B = (random.standard_normal((n, dim)).astype(np.float32) for n in (PREDICTED, SUPPORT_VECTORS))
        rows, view = rows_from_dense(A, kernel, dim), view_of(rows_from_dense(B, kernel, dim), kernel, random)
        columns = np.ascontiguousarray(B.T)
        found = rounds(
            {"here": lambda _, v=view, r=rows: cpu(lambda: v.decision(r))[0],
             "sgemm": lambda _, a=A, c=columns: cpu(lambda: a @ c)[0]}, {}, 2 * options.runs,
        )  # fmt: skip
        here, sgemm = middle(found["here"]), middle(found["sgemm"])
        work = 2e-9 * PREDICTED * SUPPORT_VECTORS * dim
        yield Line(
            "6", f"predictions of 1,000 dense rows of {dim} by 11,000 points, beside sgemm alone", "80 % of its rate",
            f"{sgemm / here:.0%} ({work / here:.0f} of {work / sgemm:.0f} GFLOP/s)", sgemm / here >= 0.8,
        )  # fmt: skip
    whole = problem(options.data, "adult", 0.005, 100)
    view, rows = view_of(whole.rows.part(0, SUPPORT_VECTORS), whole.kernel, random), whole.test
    view.decision(rows.part(0, 10))
    halves = [rows.part(0, len(rows) // 2), rows.part(len(rows) // 2, len(rows))]

    def in_turn():
        for half in halves:
            view.decision(half)

    with ThreadPoolExecutor(2) as pool:
        found = rounds(
            {"one": lambda _: wall(in_turn)[0], "two": lambda _: wall(lambda: list(pool.map(view.decision, halves)))[0],
             "cpu": lambda _: cpu(in_turn)[0]}, {}, options.runs,
        )  # fmt: skip
    rate = 1e-9 * len(rows) * SUPPORT_VECTORS / middle(found["cpu"])
    yield Line(
        "6", "predictions of Adult's sparse rows", "1 G kernel values a second a core", f"{rate:.2f} G", rate >= 1
    )
    ratio = middle(found["one"]) / middle(found["two"])
    yield Line("6", "the same on two cores", "1.7 times", f"{ratio:.2f} times (wall)", ratio >= 1.7)


def grow(whole, sample=256):
    """Measure LASVM batch by batch: points, us per example, us per kernel row alone, bytes without the row cache."""
    solver, found = whole.solver("lasvm"), []
    for begin in range(0, len(whole.rows) - BATCH + 1, BATCH):
        part, keys = whole.rows.part(begin, begin + BATCH), np.arange(begin, begin + BATCH)
        seconds, _ = cpu(lambda p=part, k=keys: solver.learn(p, whole.classes[k], k))
        n = solver.slots
        row, slots = np.empty(n, np.float32), np.linspace(0, n - 1, sample).astype(np.int64)
        bound, _ = cpu(lambda n=n, r=row, s=slots: row_each(solver.kernel, solver.points, s, n, r))
        held = bytes_of_points(solver.points) + sum(a.nbytes for a in solver.machine)
        found.append((solver.live, 1e6 * seconds / BATCH, 1e6 * bound / sample, held))
    return np.array(found, float)


@njit(error_model="numpy")
def row_each(kernel, points, slots, n, row):
    """Compute the kernel rows of some slots."""
    for s in slots:
        point_row(kernel, points, s, points, 0, n, row[:0], row)


def growth(options):
    whole = problem(options.data, "adult", 0.005, 100).shuffled(0)
    compile_all(whole, ("lasvm",))
    grow(whole.first(BATCH))
    # All runs do the same work, so time above the minimum is noise. A few batches also compact all points.
    least = np.min([grow(whole) for _ in range(options.runs)], axis=0)
    least = least[: len(least) // 8 * 8].reshape(-1, 8, 4)
    points, us, bound, held = np.median(least, axis=1).T
    (slope, start), bound_slope = np.polyfit(points, us, 1), np.polyfit(points, bound, 1)[0]
    curve = np.polyfit(points, us, 2)
    bend = curve[0] * points.max() ** 2 / np.polyval(curve, points.max())
    yield Line(
        "7", "LASVM on Adult: time an example against points held", "a line",
        f"{1e3 * slope:.2f} ns a point (kernel row {1e3 * bound_slope:.2f}), {start:+.1f} us; "
        f"a fitted square term makes {bend:+.0%} of it at the end", abs(bend) <= 0.25,
    )  # fmt: skip
    each = (held / points)[points > 1000]
    yield Line(
        "7", "memory without the row cache", "in proportion to points",
        f"{each.min():,.0f} to {each.max():,.0f} bytes a point", each.max() <= 4 * each.min(),
    )  # fmt: skip
    if options.plot:
        plot(options.plot, points, us, bound)


def plot(path, points, us, bound):
    """Draw docs/pictures/growth.svg."""
    import matplotlib as mpl  # noqa: PLC0415  an extra of its own

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "hinged", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.plot(points, us, "o", markersize=4, label="one example, learned")
    axes.plot(points, bound, "s", markersize=4, label="a kernel row alone")
    axes.set(xlabel="points held", ylabel="CPU time, us", xlim=(0, None), ylim=(0, None))
    axes.set_title("LASVM on Adult, medians of 8 batches of 256 examples", fontsize="medium")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def exact(options):
    warm_up("exact", np.float64)
    times, margin, events = increments(7.0)
    yield Line(
        "8", f"one exact increment beside 5,000 examples and {margin} margin vectors", "3 ms",
        f"{np.mean(times):.1f} ms in the mean, {np.median(times):.1f} in the median, "
        f"{np.quantile(times, 0.95):.1f} at most in 95 of 100 ({events:.1f} events)", np.mean(times) <= 3,
    )  # fmt: skip
    X, classes = pima(options.data)
    ratios, values = {C: [] for C in PAPER_C}, list(PAPER_C)
    start = len(values) // 2
    for _ in range(options.runs):
        for way in (values[start:], values[start::-1]):
            solver = trained(X, classes, way[0], 4.0, together=True)
            for C in way[1:]:
                seconds, _ = cpu(lambda s=solver, C=C: s.change_C(C))
                fresh, _ = cpu(lambda C=C: trained(X, classes, C, 4.0, together=True))
                ratios[C].append(seconds / fresh)
    part = float(np.median([np.median(r) for r in ratios.values() if r]))
    yield Line(
        "8", "another C on Pima (table III), beside learning all at once from nothing", "a fifth",
        f"1 / {1 / part:.1f}", part <= 0.2,
    )  # fmt: skip
