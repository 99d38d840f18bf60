"""Measure whether a request blocks a server's event loop (a hold)."""

from collections import Counter
from contextlib import nullcontext

from prometheus_client.parser import text_string_to_metric_families

from tests.helpers import turns

HOLD_MAX_S = "0.02"
TRIES = 4
"""Number of times that a request is sent beside other tests, and then without them. If a request blocks the loop, it
does so each time. Other work in the process does not."""


def holds(ask):
    """Return how often the loop was blocked for longer than allowed, and the total seconds of all holds, in all
    processes.
    """
    found = Counter()
    for family in text_string_to_metric_families(ask("GET", "/metrics").text):
        if family.name == "hinged_loop_hold_seconds":
            for sample in family.samples:
                found[sample.name, sample.labels.get("le")] += sample.value
    counted = [found["hinged_loop_hold_seconds_bucket", le] for le in ("+Inf", HOLD_MAX_S)]
    return counted[0] - counted[1], found["hinged_loop_hold_seconds_sum", None]


def held(ask, send):
    """Return what `send` returns, and the seconds for which the loop was blocked at each attempt. Repeat until no time
    is too long; the last attempts are made while no other test runs.
    """
    found = []
    for attempt in range(2 * TRIES):
        with turns.alone() if attempt >= TRIES else nullcontext():
            before, seconds_before = holds(ask)
            answer = send()
            after, seconds = holds(ask)
        if after == before:
            return answer, None
        found.append(round(seconds - seconds_before, 3))
    return answer, found
