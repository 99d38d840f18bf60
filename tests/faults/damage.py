"""Damage to a store on disk: bits flipped, tails torn, sectors zeroed, in the log and in snapshots.

    python -m tests.faults.damage --store sqlite --times 500

A server learns for a moment and is killed. A copy of its store is damaged in one place, and opened:

refused     the database did not open, or the log could not be read: an error says so.
whole       the state is the state after the last event, to the bit.
shorter     the state is the state after an earlier event, to the bit: the tail of the log is gone, like after a torn
            write.
older       cases among these in which the newest snapshot was unreadable, and an older snapshot or the log was used.
WRONG       any other state. There must be no such case.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from hinged.frames import BadFrame
from hinged.service.data.configuration import new_configuration
from hinged.service.errors import StoreUnavailable
from hinged.service.model.events import decode_event
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.service.store.base import Damaged
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from tests.faults.disturbances import impatient
from tests.faults.scene import Scene
from tests.faults.under_load import CONFIGURATIONS_JSON, SIZES, run
from tests.helpers.redis_server import RedisServer
from tests.helpers.states import digest_of, load_model

NAME = "three-heaps"
REFUSED = (Damaged, StoreUnavailable, BadFrame, ValueError, KeyError)
SECTOR_BYTES = 512


def learn(folder, store, seed):
    """The folders that a killed server left, and the digest of the state after each event of its log."""
    with Scene(folder, store) as scene:
        left = folder / "left"
        run(scene, [impatient] * 3, clients=3, seed=seed, copy=left)
        with closing(scene.open_store()) as opened:
            log = [decode_event(record.kind, record.payload) for _, record in opened.read(NAME, 0)]
        closed = folder / "closed"
        scene.copy(closed)
    model = Model(NAME, new_configuration(CONFIGURATIONS_JSON[NAME], Settings()), **SIZES)
    digests = {}
    for position, event in enumerate(log, 1):
        model.apply(position, event)
        digests[position] = digest_of(model)
    return [left, closed], digests


def spoil(path, rng):
    """Damage one file in one place."""
    content = bytearray(path.read_bytes())
    at = rng.randrange(len(content))
    match rng.choice(["flip", "flip", "tear", "zero"]):
        case "flip":
            content[at] ^= 1 << rng.randrange(8)
        case "tear":
            del content[at:]
        case "zero":
            at -= at % SECTOR_BYTES
            content[at : at + SECTOR_BYTES] = bytes(len(content[at : at + SECTOR_BYTES]))
    path.write_bytes(content)


def recover(store, digests):
    """The outcome for a model of an opened store, and whether a snapshot was skipped."""
    older = False
    with suppress(*REFUSED):
        for newest in store.snapshots(NAME)[:1]:
            try:
                Model.restore(NAME, store.get_snapshot(NAME, newest), **SIZES)
            except REFUSED:
                older = True
    try:
        model = load_model(store, NAME, **SIZES)
    except REFUSED:
        return "refused", older
    if digest_of(model) != digests.get(model.position):
        return "WRONG", older
    return "whole" if model.position == max(digests) else "shorter", older


def judge_sqlite(folder, digests, rng):
    spoil(rng.choice([path for path in folder.iterdir() if path.name in ("hinged.db", "hinged.db-wal")]), rng)
    try:
        opened = SQLiteStore(folder)
    except REFUSED:
        return "refused", False
    with closing(opened):
        return recover(opened, digests)


def judge_redis(folder, digests, rng):
    server = RedisServer(folder)
    spoil(server.log_files()[-1], rng)
    try:
        server.start()
    except RuntimeError:  # Redis refuses a damaged file
        return "refused", False
    try:
        with closing(RedisStore(server.url)) as opened:
            return recover(opened, digests)
    except REFUSED:
        return "refused", False
    finally:
        server.stop()


def damage(folder, store, times, seed):
    """Damage the store `times` times; count the outcomes."""
    rng = random.Random(seed)
    left, digests = learn(folder, store, seed)
    judge = judge_sqlite if store == "sqlite" else judge_redis
    found = Counter()
    for n in range(times):
        copy = folder / f"copy{n}"
        shutil.copytree(rng.choice(left), copy)
        fate, older = judge(copy, digests, rng)
        found[fate] += 1
        found["older"] += older and fate in ("whole", "shorter")
        shutil.rmtree(copy)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = damage(Path(folder), options.store, options.times, options.seed)
    print(f"{options.times} damages on {options.store}, seed {options.seed}")
    for fate in ("refused", "whole", "shorter", "older", "WRONG"):
        print(f"    {fate}: {found[fate]}")
    sys.exit(found["WRONG"] > 0)


if __name__ == "__main__":
    main()
