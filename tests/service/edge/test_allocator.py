"""Memory that many threads free can be used again, and is returned to the system."""

import subprocess
import sys

import pytest

from tests.helpers.server import PATIENCE_S

THREADS = 16
TAKEN_MIB = 10
TURNS = f"""
import os
import sys
import threading
from pathlib import Path

from hinged.service.edge.allocator import settle, share_heaps

if "shared" in sys.argv:
    share_heaps()

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def take_and_free():
    with turn:
        blocks = [b"x" * 50_000 for _ in range({TAKEN_MIB} * 2**20 // 50_000)]
        kept.append(blocks[-1])  # so that the heap does not end with what is free
        del blocks
    barrier.wait()

kept, turn, barrier = [], threading.Lock(), threading.Barrier({THREADS})
before = resident_mib()
threads = [threading.Thread(target=take_and_free) for _ in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(resident_mib() - before)
settle()
print(resident_mib() - before)
"""


def left_mib(*arguments):
    """Return the MiB that are resident after each thread had its turn, and after memory was settled."""
    ended = subprocess.run(
        [sys.executable, "-c", TURNS, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return [float(line) for line in ended.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heaps")
def test_threads_use_memory_that_other_threads_freed_and_settling_returns_it():
    shared, settled = left_mib("shared")
    assert shared < THREADS * TAKEN_MIB / 3
    assert settled < TAKEN_MIB
    apart, settled = left_mib()
    assert apart > THREADS * TAKEN_MIB / 2  # so with separate heaps the memory is not returned
    assert settled < TAKEN_MIB


HOLES = f"""
import os
import threading
import time
from pathlib import Path

from hinged.service.edge.allocator import share_heaps

share_heaps(0.1)

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def take_and_free():
    blocks = [b"x" * 20_000 for _ in range({THREADS * TAKEN_MIB} * 2**20 // 20_000)]
    taken.append(resident_mib())
    kept.extend(blocks[::100])  # a few in every heap, among what is free

taken, kept = [resident_mib()], []
thread = threading.Thread(target=take_and_free)
thread.start()
thread.join()
print(taken[1] - taken[0], flush=True)
while resident_mib() - taken[0] > {THREADS * TAKEN_MIB} / 8:
    time.sleep(0.05)
print(resident_mib() - taken[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heaps")
def test_free_memory_between_blocks_in_use_goes_back_to_the_system():
    ended = subprocess.run(
        [sys.executable, "-c", HOLES], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    taken, left = map(float, ended.stdout.split())
    assert taken > THREADS * TAKEN_MIB / 2
    assert left < taken / 4
