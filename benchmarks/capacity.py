"""How well a capacity of decisions is kept on streams whose rate varies tenfold, and what it costs.

    PYTHONPATH=.:benchmarks python benchmarks/capacity.py [--days N] [--requests N]

The first table simulates streams of contenders, examples whose best decision is limited, against the server's own code
(service/model/decisions/capacity.py). In "day" the rate rises and falls tenfold within a day. In "office" it is ten
times higher from 8:24 to 19:12. In "bursts" it is ten times higher in five random spans of 40 minutes a day. "Vary"
multiplies each day by a log-normal factor (sigma .3). The first day teaches, and does not count. "Lacking" is the share
of the capacity that was not used although enough contenders came. "Gain" is the sum of the gains that were taken,
divided by the sum of the best as many in hindsight. "Quantile" takes the gains above the quantile, of the newest 4,096
gains, that the mean rate of the day before implies; it knows no budget.

The other tables are the time of `decide` for one example a request, of a server with a capacity and without, in turns.
"""

import argparse
import os
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np
from results import Table

from hinged import Client
from hinged.service.model.decisions.capacity import Allowance
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import RunningServer

DAY, HOUR = 86_400_000, 3_600_000
STREAMS = (
    # name, contenders a day, capacity, period, contenders a request, gains
    ("day", 10_000, 40, DAY, 1, "exponential"),
    ("day, vary", 10_000, 40, DAY, 1, "exponential"),
    ("office, vary", 10_000, 40, DAY, 1, "exponential"),
    ("bursts", 10_000, 40, DAY, 1, "exponential"),
    ("day, vary", 10_000, 400, DAY, 1, "pareto"),
    ("day, vary", 10_000, 40, DAY, 1, "four values"),
    ("day, vary", 10_000, 40, DAY, 1, "five times higher in the end"),
    ("day, vary", 300, 40, DAY, 1, "exponential"),
    ("day, vary", 30_000, 40, DAY, 100, "exponential"),
    ("day, vary", 30_000, 40, DAY, 5_000, "exponential"),
    ("day, vary", 30_000, 10, HOUR, 1, "exponential"),
    ("day, vary", 30_000, 100, HOUR, 1, "exponential"),
)
NEWEST = 4_096  # gains from which the peer "quantile" computes its threshold


def arrivals(name, days, a_day, rng):
    """Return the times of contenders in milliseconds."""
    minutes, found = np.arange(1_440) / 1_440, []
    for day in range(days):
        if name.startswith("bursts"):
            rate = np.ones(1_440)
            for begin in rng.integers(0, 1_400, 5):
                rate[begin : begin + 40] = 10.0
        elif name.startswith("office"):
            rate = np.where((minutes > 0.35) & (minutes < 0.8), 10.0, 1.0)
        else:
            rate = 10 ** (0.5 * np.cos(2 * np.pi * (minutes - 0.3)))
        factor = rng.lognormal(0.0, 0.3) if name.endswith("vary") else 1.0
        counts = rng.poisson(rate / rate.sum() * a_day * factor)
        begun = day * DAY + np.repeat(np.arange(1_440), counts) * 60_000
        found.append(np.sort(begun + rng.integers(0, 60_000, begun.size)))
    return np.concatenate(found)


def gains_of(kind, m, rng):
    """Return the gains (m,) of a stream."""
    if kind == "pareto":
        return rng.pareto(1.5, m)
    if kind == "four values":
        return rng.choice([1.0, 2.0, 5.0, 9.0], m, p=[0.6, 0.3, 0.09, 0.01])
    return rng.exponential(size=m) * (np.linspace(1, 5, m) if kind.startswith("five") else 1.0)


def taken_by_server(at, gains, most, per_ms, size, rng):
    """Return which contenders the server takes, and the microseconds of a contender."""
    allowance, taken, draws = Allowance.new(most, per_ms), np.zeros(at.size, bool), rng.random(at.size)
    began = time.process_time()
    for begin in range(0, at.size, size):
        rows = slice(begin, begin + size)
        now = int(at[begin])
        taken[rows] = allowance.choose(gains[rows], draws[rows].__getitem__, 0, now)
        allowance = allowance.counted(gains[rows], taken[rows], 0, now)
    return taken, (time.process_time() - began) / at.size * 1e6


def taken_by_quantile(at, gains, most, per_ms):
    """Return which contenders are above a quantile of the newest gains, at the rate of the day before."""
    newest, taken = deque(maxlen=NEWEST), np.zeros(at.size, bool)
    rates = np.bincount(at // DAY) * per_ms / DAY
    threshold = np.inf
    for r, (when, gain) in enumerate(zip(at.tolist(), gains.tolist(), strict=True)):
        newest.append(gain)
        if r % 100 == 99 and when >= DAY:
            share = min(1.0, most / rates[when // DAY - 1])
            threshold = np.quantile(np.array(newest), 1.0 - share)
        taken[r] = gain > threshold
    return taken


def judged(at, gains, taken, most, per_ms):
    """Return the mean and highest share lacking, the highest excess, and the mean gain, over all periods after the
    first day.
    """
    lacking, gain, excess = [], [], []
    periods = at // per_ms
    for period in range(DAY // per_ms, int(periods[-1]) + 1):
        rows = periods == period
        can = min(most, int(rows.sum()))
        got = int(taken[rows].sum())
        if can:
            lacking.append(max(0.0, 1.0 - got / can))
            excess.append(max(0.0, got / most - 1.0))
            gain.append(gains[rows & taken].sum() / np.sort(gains[rows])[-can:].sum())
    return np.mean(lacking), max(lacking), max(excess), np.mean(gain)


def simulated(days):
    """Print how well the capacity is kept."""
    heads = "lacking, mean, %", "lacking, most, %", "above, most, %", "gain"
    table = Table(
        "stream", "a day", "capacity", "gains", "a request", *heads, "quantile: lacking, most, %",
        "quantile: above, most, %", "time, us",
    )  # fmt: skip
    for name, a_day, most, per_ms, size, kind in STREAMS:
        rng = np.random.default_rng(0)
        at = arrivals(name, days, a_day, rng)
        at = np.repeat(at[size - 1 :: size], size)  # a request comes when its last contender is there
        gains = gains_of(kind, at.size, rng)
        taken, us = taken_by_server(at, gains, most, per_ms, size, rng)
        mean, lacking, above, gain = judged(at, gains, taken, most, per_ms)
        peer = judged(at, gains, taken_by_quantile(at, gains, most, per_ms), most, per_ms)
        per = f"{most} / {per_ms // HOUR} h"
        figures = f"{100 * mean:.2f}", f"{100 * lacking:.1f}", f"{100 * above:.1f}", f"{gain:.3f}"
        table.add(name, a_day, per, kind, size, *figures, *(f"{100 * each:.0f}" for each in peer[1:3]), f"{us:.0f}")


def cpu_s(pid):
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(requests, share):
    """Print the time of a decision. share: share of frauds."""
    table = Table("model", "CPU of a request, us", "time of a request, us", title=f"{share:.0%} of frauds")
    X, y = stream(5_000, share=share)
    rows = [{"x": x} for x in stream(requests, seed=1, share=share)[0].tolist()]
    limits = {"ask": {"most": 40, "per": "1d"}, "fraud": {"most": 100, "per": "1h"}}
    parts = {"without": {}, "asks limited": {"capacity": {"ask": limits["ask"]}}, "both limited": {"capacity": limits}}
    found = {name: [] for name in (*parts, "predict")}
    with (
        tempfile.TemporaryDirectory() as folder,
        RunningServer(Path(folder) / "data") as server,
        Client(server.url) as client,
    ):
        for name, part in parts.items():
            client.create_model(name.replace(" ", "-"), **BODY, costs=COSTS, **part)
            client.learn_rows(name.replace(" ", "-"), X, y)
        for _ in range(5):
            for name, times in found.items():
                model = "without" if name == "predict" else name.replace(" ", "-")
                call = client.predict if name == "predict" else client.decide
                cpu, began = cpu_s(server.process.pid), time.perf_counter()
                for row in rows:
                    call(model, row)
                spent = cpu_s(server.process.pid) - cpu, time.perf_counter() - began
                times.append([each / requests * 1e6 for each in spent])
    for name, spent in found.items():
        table.add(name, *(f"{each:.0f}" for each in np.median(spent, axis=0)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--requests", type=int, default=500)
    given = parser.parse_args()
    simulated(given.days)
    for share in (0.01, 0.1):
        timed(given.requests, share)


if __name__ == "__main__":
    main()
