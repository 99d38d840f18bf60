"""Clusters on simulated time (python -m tests.seeds)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def seeds(*arguments):
    """Run the program; return its exit status and what it printed."""
    command = [sys.executable, "-m", "tests.seeds", *map(str, arguments)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
def test_no_seed_breaks_a_promise():
    status, told = seeds("--seeds", 500, "--jobs", 2)
    assert status == 0, told
    assert "500 seeds" in told


@pytest.mark.long
@pytest.mark.parametrize("planted", ["epoch", "fsync", "load"])
def test_a_fault_put_in_on_purpose_is_found(planted):
    status, told = seeds("--seeds", 1000, "--jobs", 2, "--planted", planted, "--no-shrink")
    assert status == 0, told
    assert re.search(r"seed \d+ fails", told), told


@pytest.mark.long
def test_reports_of_claims_may_be_lost():
    status, told = seeds("--seeds", 20, "--jobs", 2, "--planted", "reports")
    assert status == 1, told
    assert "20 seeds" in told


@pytest.mark.long
def test_one_seed_is_one_schedule():
    schedules = {re.search(r"schedule \w+", seeds("--seeds", 3, "--jobs", jobs)[1])[0] for jobs in (1, 2)}
    assert len(schedules) == 1


@pytest.mark.long
def test_a_failing_scenario_becomes_smaller():
    _, told = seeds("--seeds", 1000, "--planted", "load")
    before, faults = map(int, re.search(r"shrunk from (\d+) operations and (\d+) faults", told).groups())
    assert told.count("Operation(") < before / 2
    assert told.count("Fault(") <= faults
