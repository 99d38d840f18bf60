import subprocess
import sys

import numpy as np
import pytest
from river.drift import ADWIN

from hinged.service.model.drift import Drift


def errors(*parts, seed=0):
    """Return errors with the given rates: (how many, rate), ..."""
    random = np.random.default_rng(seed)
    return np.concatenate([random.random(n) < rate for n, rate in parts]).tolist()


def told(found, start=1):
    drift = Drift()
    drift.add(found, list(range(start, start + len(found))))
    return drift


def test_a_rise_of_errors_is_a_drift_and_its_number_is_where_it_was_seen():
    drift = told(errors((3000, 0.1), (500, 0.4)))
    assert drift.count == 1
    assert 3000 < drift.last_at < 3300


def test_fewer_errors_are_not_a_drift():
    drift = told(errors((1000, 0.5), (3000, 0.1)))
    assert (drift.count, drift.last_at) == (0, 0)


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5])
def test_a_steady_stream_has_no_drift(rate):
    assert told(errors((20_000, rate))).count == 0


def test_it_cuts_where_rivers_detector_does():
    found = errors((2000, 0.1), (2000, 0.4), (2000, 0.1), (2000, 0.6))
    river, cuts = ADWIN(), []
    for number, error in enumerate(found, 1):
        before = river.estimation
        river.update(error)
        if river.drift_detected and river.estimation > before:
            cuts.append(number)
    drift = told(found)
    assert drift.count == len(cuts) == 2
    assert drift.last_at == cuts[-1]


def test_a_loaded_state_continues_to_the_bit():
    found = errors((2000, 0.1), (700, 0.6), (2000, 0.2))
    for cut in (0, 1, 2037, 2500):
        one, two = told(found[:cut]), Drift()
        two.load(one.state())
        for drift in (one, two):
            drift.add(found[cut:], list(range(cut + 1, len(found) + 1)))
        expected = told(found).state()
        for state in (one.state(), two.state()):
            assert {k: v.tobytes() for k, v in state.items()} == {k: v.tobytes() for k, v in expected.items()}


WHOLE = told([False] * 700).state()
BUCKETS = WHOLE["buckets"]


@pytest.mark.parametrize(
    "change",
    [
        {"buckets": told([]).state()["buckets"]},
        {"buckets": BUCKETS[:-1]},
        {"buckets": BUCKETS + 1},
        {"buckets": BUCKETS - 1},
        {"buckets": BUCKETS.astype(np.float64)},
        {"buckets": np.where(np.arange(BUCKETS.size) == 3, 2**62, 0)},
        {"counts": np.array([0, 0, 3, 1])},
        {"counts": np.array([0, 0, 0, 0])},
        {"counts": np.array([0, 0, 700, 1])},
        {"counts": np.array([0, 0, 2**62, 0])},
        {"counts": np.array([0, 0, 2**63 - 1, 0])},
        {"counts": np.array([-1, 0, 700, 0])},
        {"counts": np.array([1, 0, 700, 0])},
        {"counts": np.array([0, 64, 700, 0])},
        {"counts": np.array([3, 64, 700, 0])},
    ],
)
def test_an_inconsistent_state_is_refused_and_changes_nothing(change):
    drift = told(errors((100, 0.5)))
    before = drift.state()
    with pytest.raises(ValueError, match=r"bucket|counts"):
        drift.load(WHOLE | change)
    assert {k: v.tolist() for k, v in drift.state().items()} == {k: v.tolist() for k, v in before.items()}


def test_only_the_counts_are_taken_from_a_state_of_the_librarys_detector():
    drift = told(errors((2000, 0.1), (500, 0.6)))
    former = {"counts": drift.state()["counts"], "version": np.frombuffer(b"0.26.1", np.uint8)}
    other = Drift()
    other.load(former | {"adwin": np.zeros(900, np.uint8)})  # whatever its bytes are
    assert (other.count, other.last_at, other.seen) == (drift.count, drift.last_at, 0)
    other.add(errors((20_000, 0.3)), list(range(20_000)))
    assert other.count == drift.count


def test_a_state_without_the_detector_is_refused():
    with pytest.raises(ValueError, match="buckets"):
        Drift().load({"counts": WHOLE["counts"]})


@pytest.mark.long
def test_the_server_needs_no_river():
    program = "import sys; sys.modules['river'] = None; import hinged.service.app, hinged.commands.cli; print('there')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "there\n"
