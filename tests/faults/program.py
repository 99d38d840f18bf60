"""The shared part of the programs that cause faults under load: options and output."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.disturbances import BOTH, FAULTS
from tests.faults.scene import scene_for


def run_program(description, run, faultless, left_out=()):
    """Cause each fault in its own scene, and print the outcome; exit with 1 unless all outcomes are faultless.

    run(scene, faults, clients, seed): returns (results by model, the traffic). faultless(results of a model): returns
    whether there was no fault. left_out: faults that this program does not support.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--fault", choices=[*FAULTS, "all"], default="kill-server")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--followers", type=int, default=0, help="processes that follow the models")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    possible = BOTH if options.store == "sqlite" else tuple(FAULTS.values())
    settings = {"processes": options.followers + 1, "followers": options.followers}
    faults = possible if options.fault == "all" else (FAULTS[options.fault],)
    good = True
    for fault in faults:
        if fault in left_out:
            continue
        with (
            tempfile.TemporaryDirectory() as folder,
            scene_for(Path(folder), options.store, [fault], **settings) as scene,
        ):
            figures, traffic = run(scene, [fault] * options.times, options.clients, options.seed)
        print(f"{fault.__name__} {options.times} times on {options.store}, seed {options.seed}:", end=" ")
        print(f"{traffic.requests} requests, {traffic.retries} of them retries")
        for name, found in figures.items():
            print(name, *(f"{key}: {value}" for key, value in found.items()), sep="\n    ")
            good &= faultless(found)
    sys.exit(not good)
