"""Novelty of a server and the one-class machine beside scikit-learn and River: classes left out, p-values, and costs.

    PYTHONPATH=.:benchmarks python benchmarks/novelty.py --data FOLDER [--known 1000] [--held 1000 4000] [--parts PART]

Part "classes": each class in turn is left out. A detector learns examples of the other classes; then it ranks further
examples of these classes, and examples of the class left out. AUC is the mean over the classes. A second table has the
one-class machine's p-values of examples of the known classes. Part "stream": the p-values that a server gives along a
stream of the known classes, and then for a class left out. Part "questions": how many questions find a rare class in a
pool without labels. Part "cost": CPU of a server for predictions with and without novelty. Part "rates": exact
increments, decrements and decisions of the one-class machine, beside the time in which OneClassSVM fits all examples
again. The programs take turns in one run. Part "inputs": false alarms about inputs on shuffled streams, and delays
after a change at x number 5,000 of 8,000, beside River's ADWIN of the same distances.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from datasets import arguments, load
from results import Table
from river.anomaly import HalfSpaceTrees
from river.drift import ADWIN
from scipy import sparse
from scipy.stats import ks_2samp, kstest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from hinged import Client
from hinged.service.data.features.reader import AS_THEY_CAME, Reading
from hinged.service.model.novelty import SAMPLE, Novelty
from hinged.service.model.promises.inputs import FROZEN, InputAlarm
from hinged.sklearn import OneClassClassifier
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.scores.novelty import EUCLID, Sample
from hinged.solvers.scores.selection import diverse
from tests.helpers.server import RunningServer

NU = 0.1
NAMES = ("digits", "breast cancer", "usps", "mnist", "waveform")
LEVELS = (0.01, 0.05, 0.1)
PEERS = ("server", "one-class", "OneClassSVM", "IsolationForest", "HalfSpaceTrees")
PARTS = ("classes", "stream", "questions", "cost", "rates", "inputs")
CHANGE, AFTER = 5_000, 3_000  # x before and after a change, in part "inputs"
RARE, POOLS = 0.02, 30
ROWS, TURNS = 1_000, 8  # x of a request in part "cost", and number of requests


@cache
def examples_of(name, folder):
    """Return X (n, features) and y (n,) of a set, in a random order."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    elif name == "breast cancer":
        X, y = load_breast_cancer(return_X_y=True)
    else:
        X, y = load(folder, name)[:2]
        X = X.toarray() if sparse.issparse(X) else X
    order = np.random.default_rng(0).permutation(len(y))[:20_000]
    return np.asarray(X[order], float), np.asarray(y)[order]


def parts_of(X, y, left_out, known_max):
    """Return what is learned, known examples that are not learned, and novel examples; standardised by the first."""
    known, novel = X[y != left_out], X[y == left_out][:known_max]
    count = min(known_max, len(known) // 2)
    middle, size = known[:count].mean(axis=0), known[:count].std(axis=0)
    size[size == 0] = 1.0
    return [np.clip((part - middle) / size, -5, 5) for part in (known[:count], known[count : 2 * count], novel)]


def half_space_trees(train, test):
    """Return the scores of River's trees: larger for examples that look normal."""
    least, most = train.min(axis=0), train.max(axis=0)
    width = np.where(most > least, most - least, 1.0)
    trees = HalfSpaceTrees(n_trees=25, seed=0)
    records = [dict(enumerate(row)) for row in np.clip((train - least) / width, 0, 1).tolist()]
    for record in records:
        trees.learn_one(record)
    asked = np.clip((test - least) / width, 0, 1).tolist()
    return np.array([-trees.score_one(dict(enumerate(row))) for row in asked])


def ranked(train, test):
    """Return the scores of each program at `test`, and the fitted one-class machine."""
    machine = OneClassClassifier(nu=NU).fit(train)
    scores = [
        -Sample(rows_of(train[:SAMPLE])).compare(rows_of(test))[0],
        machine.decision_function(test),
        OneClassSVM(nu=NU).fit(train).decision_function(test),
        IsolationForest(random_state=0).fit(train).score_samples(test),
        half_space_trees(train, test),
    ]
    return scores, machine


def seconds_of(work):
    begun = time.perf_counter()
    found = work()
    return time.perf_counter() - begun, found


def judge(name, folder, known_max):
    """Return the row of the first table and the row of the second table."""
    X, y = examples_of(name, folder)
    areas, below, asked, distances, chances, rates, firsts = [], np.zeros(len(LEVELS)), 0, [], [], [], []
    for left_out in np.unique(y):
        train, held_out, novel = parts_of(X, y, left_out, known_max)
        test = np.vstack((held_out, novel))
        scores, machine = ranked(train, test)
        is_known = np.arange(len(test)) < len(held_out)
        areas.append([roc_auc_score(is_known, each) for each in scores])
        firsts.append(seconds_of(lambda: machine.p_values(test[:1]))[0])  # noqa: B023  called at once
        spent, p = seconds_of(lambda: machine.p_values(test))  # noqa: B023  called at once
        rates.append(len(test) / spent)
        below += [(p[is_known] <= level).sum() for level in LEVELS]
        asked += len(held_out)
        own = machine.solver_.leave_one_out()[1][:, 0]
        found = ks_2samp(own, scores[1][is_known])
        distances.append(found.statistic)
        chances.append(found.pvalue)
    mean = np.mean(areas, axis=0)
    first = [name, len(train), X.shape[1], len(areas), *(f"{area:.3f}" for area in mean)]
    second = [name, *(f"{count / asked:.3f}" for count in below), f"{np.median(distances):.3f}"]
    second += [
        f"{np.median(chances):.2f}",
        f"{min(chances):.3f}",
        f"{np.median(firsts):.2f}",
        f"{np.median(rates):,.0f}",
    ]
    return first, second


def cpu_s(pid):
    """Return the CPU seconds of a process so far."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def rows_of(X):
    return rows_from_dense(X, make_kernel("rbf", 1 / X.shape[1]), X.shape[1])


def along_a_stream(name, folder):
    """Return a row of the table of p-values along streams, each of one set without a class."""
    X, y = examples_of(name, folder)
    below, caught, count, novel_count, distances = np.zeros(len(LEVELS)), np.zeros(len(LEVELS)), 0, 0, []
    for left_out in np.unique(y):
        train, held_out, novel = parts_of(X, y, left_out, 3_000)
        rows, novelty, found = rows_of(np.vstack((train, held_out))), Novelty(), []
        for r in range(len(rows)):
            x = rows.row(r)
            if novelty.compared is not None:
                found.append(novelty.compared.compare(x)[1][0])
            novelty = novelty.saw([str(r)], lambda _, x=x: x, lambda xs: xs)
        p_values, strange = np.array(found), novelty.compared.compare(rows_of(novel))[1]
        below += [(p_values <= level).sum() for level in LEVELS]
        caught += [(strange <= level).sum() for level in LEVELS]
        count, novel_count = count + p_values.size, novel_count + strange.size
        distances.append(kstest(p_values, "uniform").statistic)
    shares = [*(below / count), np.median(distances), max(distances), *(caught / novel_count)]
    return [name, count, *(f"{share:.3f}" for share in shares)]


def questions_of(name, folder):
    """Return a row of the table of questions: the median number until a rare class is found."""
    X, y = examples_of(name, folder)
    found = []
    for seed in range(POOLS):
        random = np.random.default_rng(seed)
        rare = random.choice(np.unique(y))
        usual = random.permutation(np.flatnonzero(y != rare))[:1_000]
        few = random.permutation(np.flatnonzero(y == rare))[: max(2, round(RARE * usual.size))]
        order = random.permutation(np.concatenate((few, usual)))
        size = X[order].std(axis=0)
        rows = rows_of(np.clip((X[order] - X[order].mean(axis=0)) / np.where(size > 0, size, 1.0), -5, 5))
        strangeness = Sample(rows.part(len(rows) - min(SAMPLE, len(rows)), len(rows))).compare(rows)[0]
        asked = diverse(make_kernel("rbf", 1 / X.shape[1]), rows, strangeness / strangeness.max(), len(rows))
        is_rare = y[order] == rare
        found.append([1 + is_rare.argmax(), 1 + is_rare[asked].argmax()])
    return [name, *(f"{number:.0f}" for number in np.median(found, axis=0))]


def cost_of(kind, form, points):
    """Return microseconds of CPU of a server per x, without and with novelty. kind: of x. form: of the request."""
    random = np.random.default_rng(0)
    X = random.standard_normal((points + ROWS, 30))
    y = np.where(X[:, 0] * X[:, 1] > 0, "a", "b").tolist()
    xs = [{f"n{k}": v for k, v in enumerate(row[:8])} for row in X.tolist()] if kind == "named" else X.tolist()
    features = {"type": "named"} if kind == "named" else {"type": "dense", "dim": 30}
    spent = {False: [], True: []}
    with TemporaryDirectory() as folder, RunningServer(Path(folder)) as server, Client(server.url) as client:
        for novelty in spent:
            client.create_model(f"m{novelty}", solver="lasvm", C=1, features=features, novelty=novelty)
            client.learn(f"m{novelty}", [{"x": x, "y": label} for x, label in zip(xs[:points], y, strict=False)])
        size, requests = (1, 500) if form == "alone" else (ROWS, 20)
        for turn in range(2 * TURNS):
            bodies = []
            for k in range(requests):
                told = [{"x": x} for x in xs[points:][:size]]
                named = form != "without ids"
                bodies.append([one | {"id": f"{turn}-{k}-{r}"} for r, one in enumerate(told)] if named else told)
            before = cpu_s(server.process.pid)
            for told in bodies:
                client.predict(f"m{turn % 2 == 1}", told)
            time.sleep(0.2)  # predictions with ids are logged soon after they are answered
            spent[turn % 2 == 1].append(1e6 * (cpu_s(server.process.pid) - before) / (size * requests))
        held = client.model("mTrue")["points"]
    off, on = (np.median(each[1:]) for each in spent.values())
    return [kind, form, held, f"{off:.1f}", f"{on:.1f}", f"{on / off:.2f}"]


def drawn(name, folder, random, n):
    """Return n x of a set in a random order, standardised by the first 2,000; "normal": five normal columns."""
    if name == "normal":
        return random.standard_normal((n, 5))
    X = examples_of(name, folder)[0]
    return standardised(X[random.permutation(len(X))[np.arange(n) % len(X)]])


def standardised(X):
    size = X[:2_000].std(axis=0)
    return np.clip((X - X[:2_000].mean(axis=0)) / np.where(size > 0, size, 1.0), -5, 5)


def alarms_of(X, level, first, seen):
    """Return the numbers of the first x after `seen` at which the alarm and ADWIN saw a change, 0 for none, and whether
    each saw one before. first: the number of the first x. It determines how ties are broken.
    """
    rows, alarm, adwin, found = rows_of(X), InputAlarm.new({"level": level}), ADWIN(), [[], []]
    reading = Reading(AS_THEY_CAME, EUCLID, X.shape[1], np.float32)
    for begin in range(0, len(rows), FROZEN):  # at most one alarm in a batch: then the next FROZEN x are the sample
        ids, count = [str(r) for r in range(begin, min(len(rows), begin + FROZEN))], alarm.alarm.count
        numbers = range(first + begin, first + begin + len(ids))
        alarm = alarm.saw(ids, rows.part(begin, begin + len(ids)), numbers, reading)
        found[0] += [alarm.alarm.last_at - first + 1] * (alarm.alarm.count > count)
    distances = Sample(rows.part(0, FROZEN)).compare(rows.part(FROZEN, len(rows)))[0]
    for number, distance in enumerate(distances.tolist(), FROZEN + 1):
        adwin.update(distance)
        found[1] += [number] * adwin.drift_detected
    return [(min((n for n in each if n > seen), default=0), min(each, default=seen + 1) <= seen) for each in found]


def moved(folder, random):
    X = drawn("normal", folder, random, CHANGE + AFTER)
    X[CHANGE:, 0] += 1.0
    return X


def wider(folder, random):
    X = drawn("normal", folder, random, CHANGE + AFTER)
    X[CHANGE:] *= 1.0 + 0.5 * np.minimum(np.arange(AFTER) / 1_000, 1.0)[:, None]
    return X


def stuck(_folder, random):
    X = random.standard_normal((CHANGE + AFTER, 8))
    X[CHANGE:, :2] = 0.0
    return X


def rare(folder, random):
    X = drawn("normal", folder, random, CHANGE + AFTER)
    X[CHANGE:][random.random(AFTER) < 0.02] += 4.0
    return X


def backwards(folder, random):
    X = drawn("ijcnn1", folder, random, CHANGE + AFTER)
    X[CHANGE:] = X[CHANGE:, ::-1]
    return X


def new_digit(folder, random, share=0.1):
    X, y = examples_of("usps", folder)
    new = y == random.choice(np.unique(y))
    before, after = random.permutation(np.flatnonzero(~new))[:CHANGE], random.choice(np.flatnonzero(~new), AFTER)
    after = np.where(random.random(AFTER) < share, random.choice(np.flatnonzero(new), AFTER), after)
    return standardised(X[np.concatenate((before, after))])


CHANGES = {
    "one column of five moves by a standard deviation": moved,
    "five columns become 1.5 times as wide within 1,000 x": wider,
    "two columns of eight are stuck": stuck,
    "2 % of x are far away in five columns": rare,
    "ijcnn1, columns reversed": backwards,
    "usps, a digit unseen so far is a tenth": new_digit,
}


def rates_of(name, folder, held):
    """Return milliseconds of an increment, a decrement and a fit from nothing, and decisions per second."""
    X, y = examples_of(name, folder)
    train, held_out, _ = parts_of(X, y, y[0], held)
    count = min(100, len(held_out))
    machine, found = OneClassClassifier(nu=NU).fit(train), {"up": [], "down": [], "refit": [], "rate": []}
    machine.partial_fit(held_out[:1]).unlearn([len(train)])  # loads the code
    for k in range(count):
        number = len(train) + 1 + k
        found["up"].append(seconds_of(lambda: machine.partial_fit(held_out[k : k + 1]))[0])  # noqa: B023
        if k % 20 == 0:
            found["refit"].append(seconds_of(lambda: OneClassSVM(nu=NU).fit(np.vstack((train, held_out[:1]))))[0])
            found["rate"].append(len(held_out) / seconds_of(lambda: machine.decision_function(held_out))[0])
        found["down"].append(seconds_of(lambda: machine.unlearn([number]))[0])  # noqa: B023
    means = {key: np.mean(each) for key, each in found.items()}
    return [
        name, len(train), X.shape[1], int(machine.solver_.margins[0].counts[0]), int(machine.n_support_[0]),
        *(f"{1e3 * means[key]:.2f}" for key in ("up", "down", "refit")),
        f"{means['refit'] / means['up']:.0f}", f"{means['rate']:,.0f}",
    ]  # fmt: skip


def about_inputs(given):
    heads, first = ("alarm", "ADWIN"), 1
    still = Table("set", "streams", *heads, title=f"Shuffled streams of {CHANGE:,} x with a false alarm")
    for name in ("normal", "ijcnn1", "adult", "usps"):
        found = np.zeros(2, int)
        for seed in range(given.shuffles):
            X = drawn(name, given.data, np.random.default_rng(seed), CHANGE)
            found += [early for _, early in alarms_of(X, given.level, first, CHANGE)]
            first += CHANGE
        still.add(name, given.shuffles, *found.tolist())
    delays = Table("change", "alarm: delay", "most", "early", "ADWIN: delay", "most ", "early ", title="Delays, median")
    for name, change in CHANGES.items():
        found = []
        for seed in range(given.seeds):
            found.append(alarms_of(change(given.data, np.random.default_rng(seed)), given.level, first, CHANGE))
            first += CHANGE + AFTER
        cells = []
        for own in zip(*found, strict=True):
            after = [at - CHANGE if at else AFTER for at, _ in own]
            cells += [f"{np.median(after):.0f}", max(after), sum(early for _, early in own)]
        delays.add(name, *cells)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--known", type=int, default=1000, help="maximum number of examples that a detector learns")
    parser.add_argument("--held", type=int, nargs="+", default=[1000, 4000], help="examples held in the third table")
    parser.add_argument("--level", type=float, default=0.01, help="of the alarm, in part inputs")
    parser.add_argument("--shuffles", type=int, default=250, help="shuffled streams of each set in part inputs")
    parser.add_argument("--seeds", type=int, default=10, help="streams of each change in part inputs")
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    if "classes" in given.parts:
        judged = [judge(name, given.data, given.known) for name in given.sets]
        areas = Table("set", "learned", "features", "classes left out", *PEERS, title="AUC with a class left out")
        for row, _ in judged:
            areas.add(*row)
        uniform = Table(
            "set", *(f"p <= {level:g}" for level in LEVELS), "KS distance, median", "its chance, median",
            "least chance", "first call, s", "x a second", title="p-values of known examples, one-class machine",
        )  # fmt: skip
        for _, row in judged:
            uniform.add(*row)
    if "stream" in given.parts:
        streams = Table(
            "set", "p-values", *(f"p <= {level:g}" for level in LEVELS), "KS distance, median", "most",
            *(f"novel: p <= {level:g}" for level in LEVELS), title="p-values of a server along streams",
        )  # fmt: skip
        for name in given.sets:
            streams.add(*along_a_stream(name, given.data))
    if "questions" in given.parts:
        asked = Table("set", "at random", "strangest first", title="questions until a class of 2 % is found, median")
        for name in given.sets:
            asked.add(*questions_of(name, given.data))
    if "cost" in given.parts:
        costs = Table("x", "request", "points", "without, us", "with, us", "ratio", title="CPU of a prediction")
        for kind in ("dense", "named"):
            for form in ("without ids", "with ids", "alone"):
                for points in (300, 2_000):
                    costs.add(*cost_of(kind, form, points))
    if "inputs" in given.parts:
        about_inputs(given)
    if "rates" in given.parts:
        rates = Table(
            "set", "held", "features", "free", "support vectors", "increment, ms", "decrement, ms", "refit, ms",
            "refit / increment", "decisions a second", title="Exact increments beside fitting OneClassSVM again",
        )  # fmt: skip
        for name in given.sets:
            for row in {row[1]: row for row in (rates_of(name, given.data, held) for held in given.held)}.values():
                rates.add(*row)


if __name__ == "__main__":
    main()
