"""Damage to the state of a model, under a valid checksum."""

import contextlib
import copy
import random

import numpy as np

from hinged.frames import decode, encode
from hinged.service.model.state import SNAPSHOT
from hinged.solvers.catalogue import SOLVERS
from tests.faults.fuzz_scenes import scene

FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e-45, 1.0, -1.0, 0.5, 2.0, 1e6, 1e15, 1e30,
          1e38, -1e38, 1e77, 1e100, 1e119, 1e120, 1e149, 1e200, 1e307, 1.7e308, -1.7e308]  # fmt: skip
INTEGERS = [0, 1, -1, -2, 2, 7, 31, 32, 64, 100, 255, 999, 1000, 1024, -100, 2**31 - 1, 2**31, 2**32, 2**52, 2**53 - 1,
            2**53, 2**60, 2**61, 2**62 - 1, 2**62, 2**63 - 1, -(2**62), -(2**63)]  # fmt: skip
ODD = [None, True, False, 0, 1, -1, 7, 2**31, 2**52, 2**53 - 1, 2**53, 2**63 - 1, 2**65, -(2**65), 0.5, -1.0, 1e-320,
       1e15, 1e308, float("nan"), float("inf"), "", "a", "\x00", "\ud800", "@1", "x" * 300, [], [None], [1, 2],
       ["a", [0]], [[0, "a"]], {}, {"a": 1}, {"dim": 2**40}, [{}], [[], []]]  # fmt: skip


def narrowed(value, dtype):
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return np.array(value, np.float64).astype(dtype)
        return np.array([int(value) % 2**64], np.uint64).astype(dtype)[0]


def an_extreme(choices, array):
    values = array.copy()
    pool = FLOATS if array.dtype.kind == "f" else INTEGERS
    value = choices.choice(pool)
    for _ in range(choices.choice([1, 1, 1, 2, 5])):
        values.flat[choices.randrange(array.size)] = narrowed(value, array.dtype)
    return values


def a_neighbour(choices, array):
    values = array.copy()
    at = choices.randrange(array.size)
    by = choices.choice([-1, 1, -2, 2, 32, -32])
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f":
            value, kind = values.flat[at], array.dtype.type
            beside = np.nextafter(value, kind(by * np.inf))
            values.flat[at] = choices.choice([beside, value + kind(by), -value, value * kind(1 + by / 100)])
        else:
            values.flat[at] = narrowed(int(values.flat[at]) + by, array.dtype)
    return values


def scaled(choices, array):
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f":
            return (array * array.dtype.type(choices.choice([0, -1, 0.5, 2, 1e3, 1e-30, 1e30, 1e100, 1e200]))).astype(
                array.dtype
            )
        return (array * choices.choice([0, 2, 3])).astype(array.dtype) if choices.random() < 0.5 else ~array


def another_order(choices, array):
    order = list(range(array.shape[0]))
    if choices.random() < 0.5 and len(order) > 1:
        a, b = choices.sample(order, 2)
        order[a], order[b] = order[b], order[a]
    else:
        choices.shuffle(order)
    return array[order]


def entries(choices, array):
    """Fewer entries, or some of them twice, along an axis."""
    axis = choices.randrange(array.ndim)
    n = array.shape[axis]
    kept = choices.choice([range(n - 1), range(1, n), [*range(n), n - 1], [*range(n), 0], [0] * n, [], range(n // 2)])
    return np.take(array, list(kept), axis)


def another_shape(choices, array):
    return choices.choice([
        lambda: array.reshape(-1), lambda: array[None], lambda: array[..., None], array.T.copy,
        lambda: np.resize(array, [choices.randrange(8) for _ in range(choices.randrange(4))]),
        lambda: np.zeros((0, *array.shape[1:]), array.dtype),
    ])()  # fmt: skip


def another_type(choices, array):
    with np.errstate(all="ignore"):
        return array.astype(choices.choice(["int8", "uint8", "int32", "int64", "uint64", "float32", "float64"]))


def other_bits(choices, array):
    raw = bytearray(array.tobytes())
    for _ in range(choices.randrange(4) + 1):
        raw[choices.randrange(len(raw))] ^= 1 << choices.randrange(8)
    return np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)


def constant(choices, array):
    return np.full_like(array, narrowed(choices.choice(FLOATS if array.dtype.kind == "f" else INTEGERS), array.dtype))


OF_AN_ARRAY = (an_extreme, an_extreme, an_extreme, a_neighbour, a_neighbour, scaled, another_order, entries,
               another_shape, another_type, other_bits, constant)  # fmt: skip


def damage_array(choices, _, arrays, donor):
    names = sorted(name for name, array in arrays.items() if array.size and array.ndim)
    # The metrics have many arrays; the solver's few arrays matter more.
    name = choices.choice([n for n in names if choices.random() < 0.5 and "solver" in n] or names)
    if choices.random() < 0.05:
        del arrays[name]
        return f"{name} is gone"
    if choices.random() < 0.1:
        same = [other for other in names if arrays[other].dtype == arrays[name].dtype and other != name]
        if same:
            other = choices.choice(same)
            arrays[name], arrays[other] = arrays[other], arrays[name]
            return f"{name} and {other} are swapped"
    if choices.random() < 0.08 and name in donor[1]:
        arrays[name] = donor[1][name]
        return f"{name} is another model's"
    how = choices.choice(OF_AN_ARRAY)
    before = arrays[name]
    arrays[name] = how(choices, before)
    return f"{name}: {how.__name__} {changes(before, arrays[name])}"


def changes(before, after):
    if before.shape != after.shape or before.dtype != after.dtype:
        return f"{before.dtype}{before.shape} {after.dtype}{after.shape}"
    at = np.flatnonzero(before.tobytes() != after.tobytes()) if before.size == 1 else np.flatnonzero(before != after)
    return [(int(p), before.flat[p].item(), after.flat[p].item()) for p in at[:4]]


def places(part, path=()):
    """All places in the facts."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def inside(facts, path):
    for key in path:
        facts = facts[key]
    return facts


def damage_facts(choices, facts, _, donor):
    path = choices.choice(list(places(facts)))
    holder, key = inside(facts, path[:-1]), path[-1]
    value = holder[key]
    how = choices.randrange(6)
    if how == 0 and isinstance(holder, dict):
        del holder[key]
    elif how == 1 and isinstance(value, list) and value:
        value.insert(choices.randrange(len(value)), copy.deepcopy(choices.choice(value)))
    elif how == 2 and isinstance(value, list) and value:
        value.pop(choices.randrange(len(value)))
    elif how == 3 and type(value) in (int, float):
        holder[key] = choices.choice([value + 1, value - 1, -value, value * 2, value * 10**9])
    elif how == 4:
        with contextlib.suppress(KeyError, IndexError, TypeError):
            holder[key] = copy.deepcopy(inside(donor[0], path))
    else:
        holder[key] = copy.deepcopy(choices.choice(ODD))
    return f"facts {path}: {str(value)[:40]!r} {how} {str(inside(facts, path[:-1]))[:60]!r}"


def damage_together(choices, facts, arrays, donor):
    """Change a fact that stands in several places, in all of them."""
    prefixes = [name.removesuffix("solver.seen") for name in arrays if name.endswith("solver.seen")]
    prefix = choices.choice(prefixes)
    learner = facts["learner"] if prefix == "learner." else facts["shadows"].get(prefix.split(".")[1].rstrip("/"))
    big = choices.choice([2**20, 2**31, 2**40, 2**51, 2**52, 2**53 - 100, 2**53 - 1, 2**62 - 50, 2**63 - 1])

    def add(names, by):
        for name in names:
            full = prefix + name
            if full in arrays and arrays[full].size:
                values = arrays[full].copy()
                values.flat[0] = narrowed(int(values.flat[0]) + by, values.dtype)
                arrays[full] = values

    def multiply(names, by):
        for name in names:
            if prefix + name in arrays:
                with np.errstate(all="ignore"):
                    arrays[prefix + name] = arrays[prefix + name] * by

    def learned():
        facts["learned"] = facts["answers"]["newest"] = facts["learned"] + big
        if learner:
            learner["learned"] += big
        add(["solver.learned", "metrics.counts"], 0)

    def counted():
        learned()
        values = arrays[prefix + "metrics.counts"].copy()
        values[1] += min(big, 2**62)
        arrays[prefix + "metrics.counts"] = values

    def tallied():
        counted()
        sources = [n for n in ("streamed", "queried", "random") if prefix + f"metrics.{n}.cells" in arrays]
        add(["metrics.all.cells", "metrics.all.seen", "metrics.sigmoid.seen", "metrics.sigmoid.due"], big)
        add(["metrics.calibrations.judged", "metrics.calibrations.due"], big)
        for source in sources[:1]:
            add([f"metrics.{source}.cells", f"metrics.{source}.seen"], big)

    def solved():
        learned()
        add(["solver.seen", "solver.learned", "solver.steps"], big)
        counts = prefix + "solver.counts"
        if counts in arrays:
            values = arrays[counts].copy()
            values[1:] = np.minimum(values[1:].astype(object) + big, 2**63 - 1).astype(np.int64)
            arrays[counts] = values
        add(["solver.upkeep_counts"], big)

    def dropped():
        learned()
        add(["ages.dropped"], choices.choice([0, big // 2, big]))
        grains = prefix + "ages.grains"
        if grains in arrays and arrays[grains].size:
            values = arrays[grains].copy()
            values[:, 0] += min(big, 2**62)
            arrays[grains] = values

    def costs():
        by = choices.choice([1e-300, 1e-15, 1e3, 1e14, 1e30, 1e308])
        multiply(
            ["solver.alpha", "solver.lower", "solver.upper", "solver.smooth", "solver.C", "solver.memory_alpha"], by
        )
        if learner and isinstance(learner["configuration"], dict) and "C" in learner["configuration"]:
            learner["configuration"]["C"] *= by

    def coefficients():
        multiply(["solver.alpha", "solver.smooth", "solver.w"], choices.choice([1e-300, -1.0, 1e50, 1e100, 1e118]))

    def probabilities():
        fits = ["metrics.sigmoid.fit", "metrics.calibrations.fits"]
        multiply(choices.choice([fits, fits[1:]]), choices.choice([-1.0, 1e-300, 1e60, 1e95, -1e95]))

    def keys():
        learned()
        for name in ("solver.key", "solver.memory_key", "solver.recent_key", "warm_keys"):
            full = prefix + name
            if full in arrays:
                values = arrays[full].copy()
                values[values >= 0] += min(big, 2**62)
                arrays[full] = values

    def configuration():
        if learner and isinstance(learner["configuration"], dict):
            inner = learner["configuration"]
            key = choices.choice(sorted(inner))
            inner[key] = copy.deepcopy(choices.choice([*ODD, 2, 3, 1e-9, 40, "remove", 1000]))

    def labels():
        if learner and learner["labels"]:
            for other in (facts["learner"], *facts["shadows"].values()):
                other["labels"] = copy.deepcopy(other["labels"])
                other["labels"][0] = choices.choice(["zz", True, 1, 2**70, "x" * 500])

    def of_a_donor():
        part = choices.choice(["solver.", "metrics.", "ages.", "vocabulary.", "scaling."])
        own = prefix + part
        theirs = {name: array for name, array in donor[1].items() if name.startswith("learner." + part)}
        for name in [name for name in arrays if name.startswith(own)]:
            del arrays[name]
        arrays.update({prefix + name.removeprefix("learner."): array for name, array in theirs.items()})

    how = choices.choice([learned, counted, tallied, solved, dropped, costs, coefficients, keys, configuration,
                          configuration, labels, of_a_donor, probabilities])  # fmt: skip
    how()
    return f"{prefix}{how.__name__} by {big}"


DAMAGES = (damage_array, damage_array, damage_array, damage_array, damage_facts, damage_together)


def damaged(number):
    """The changed snapshot of a case, and the changes."""
    choices = random.Random(f"case {number}")
    scenes = choices.choice([len(SOLVERS), 4 * len(SOLVERS), 40 * len(SOLVERS)])
    at, other = number % len(SOLVERS), choices.randrange(scenes)
    at += len(SOLVERS) * choices.randrange(scenes // len(SOLVERS))
    if choices.random() < 0.5:  # a donor with the same solver
        other = at % len(SOLVERS) + len(SOLVERS) * (other // len(SOLVERS))
    _, snapshot = scene(at)
    facts, arrays = decode(snapshot, SNAPSHOT)
    donor = decode(scene(other)[1], SNAPSHOT)
    told = [f"scene {at} {facts['learner']['configuration']['solver']}"]
    for _ in range(choices.choice([1, 1, 1, 2, 3, 4])):
        try:
            told.append(choices.choice(DAMAGES)(choices, facts, arrays, donor))
        except (KeyError, TypeError, IndexError, ValueError, OverflowError, AttributeError) as error:
            told.append(f"not changed: {error!r}")  # an earlier change removed what this change needs
    return encode(SNAPSHOT, facts, arrays), told, choices
