"""Run seeds, shrink the first that fails, and print what happened.

    python -m tests.seeds --seeds 1000 --from 0
    python -m tests.seeds --seeds 1 --from 17 --log
    python -m tests.seeds --seeds 1000 --planted epoch

The exit status is 1 if a seed fails; with --planted, if none does.
"""

import argparse
import gc
import hashlib
import logging
import multiprocessing
import os
import re
import sys
import time
from contextlib import nullcontext

if os.environ.get("PYTHONHASHSEED") != "0":  # sets of names must have the same order in each process
    arguments = [sys.executable, "-m", "tests.seeds", *sys.argv[1:]]
    os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606

from hinged.solvers import warm
from tests.seeds.planted import PLANTED
from tests.seeds.run import Run
from tests.seeds.scenario import Scenario

TOLD_EVERY = 1000


def prepare():
    """Load what a seed must not spend time on."""
    for solver in ("auto", "lasvm"):
        warm.warm_up_first(solver)
    logging.getLogger("uvicorn.error").disabled = True
    gc.collect()
    gc.freeze()


def outcome(scenario, planted=None):
    """Run a scenario; return what was found, the facts of the run, and a digest of its schedule."""
    with nullcontext() if planted is None else PLANTED[planted]():
        run = Run(scenario)
        checks = run.result()
    return checks.broken, run.facts(), run.digest()


def of_seed(asked):
    """Return the outcome of a seed, for a pool of processes."""
    seed, planted = asked
    return seed, *outcome(Scenario.of(seed), planted)


def kind_of(broken):
    """Return what the first finding has in common with findings about other models, examples and positions."""
    return [re.sub(r"\b\w*\d[\w.-]*", "", sentence) for sentence in broken]


def tell_failure(scenario, broken, planted, *, shrink):
    """Print a failing scenario, and the smallest scenario that still fails."""
    print(f"seed {scenario.seed} fails:", *broken[:5], sep="\n  ")
    print(f"again: python -m tests.seeds --seeds 1 --from {scenario.seed}{f' --planted {planted}' * bool(planted)}")
    if shrink:
        kind = kind_of(broken[:1])
        small = scenario.shrunk(lambda tried: kind_of(outcome(tried, planted)[0][:1]) == kind)
        print(f"shrunk from {len(scenario.operations)} operations and {len(scenario.faults)} faults to:")
        print(*small.operations, *small.faults, *outcome(small, planted)[0][:5], sep="\n  ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--planted", choices=[*PLANTED])
    parser.add_argument("--keep-on", action="store_true", help="run all seeds, although one has failed")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--log", action="store_true", help="print the log of the nodes")
    options = parser.parse_args()
    if options.log:
        logging.basicConfig(level=logging.INFO, format="%(created).3f %(message)s")
    prepare()
    began, done, found, total, digest = time.perf_counter(), 0, [], {}, hashlib.sha256()
    asked = [(seed, options.planted) for seed in range(options.first, options.first + options.seeds)]
    with multiprocessing.get_context("fork").Pool(options.jobs) if options.jobs > 1 else nullcontext() as pool:
        for seed, broken, facts, of_run in map(of_seed, asked) if pool is None else pool.imap(of_seed, asked, 8):
            done += 1
            digest.update(of_run.encode())
            total = {name: total.get(name, 0) + value for name, value in facts.items()}
            if broken:
                found.append(seed)
                tell_failure(Scenario.of(seed), broken, options.planted, shrink=not options.no_shrink)
                if not options.keep_on:
                    break
            if done % TOLD_EVERY == 0:
                print(f"{done} seeds, {len(found)} fail", flush=True)
    seconds = time.perf_counter() - began
    told = ", ".join(f"{value:,.0f} {name.replace('_', ' ')}" for name, value in total.items())
    print(
        f"{done} seeds in {seconds:.0f} s: {len(found)} fail {found[:20]}; {told}; schedule {digest.hexdigest()[:12]}"
    )
    sys.exit(bool(found) != (options.planted is not None))


if __name__ == "__main__":
    main()
