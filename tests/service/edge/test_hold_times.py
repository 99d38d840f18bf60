"""Holds counts the times for which the loop was blocked, and not the times for which its thread had no core."""

import asyncio
import hashlib
import os
import re
import threading
import time

from hinged.service.edge.holds import Holds

HOLD_S = 0.2
SLACK_S = 0.05
LONG = bytes(8 * 2**20)


def seconds_held(work):
    """Return the seconds of all holds while the loop awaits `work`."""

    async def run():
        holds = Holds()
        holds.start()
        await work()
        await asyncio.sleep(SLACK_S)  # until the next check
        holds.stop()
        (histogram, _) = holds.collect()
        return next(each.value for each in histogram.samples if each.name.endswith("_sum"))

    return asyncio.run(run())


def test_a_long_callback_is_a_hold():
    async def compute():
        end = time.thread_time() + HOLD_S
        while time.thread_time() < end:
            pass

    assert seconds_held(compute) >= HOLD_S - SLACK_S


def test_a_thread_that_keeps_the_lock_is_a_hold():
    def match():
        """Compute for longer than HOLD_S in one call that keeps Python's lock."""
        end = time.thread_time() + HOLD_S
        length = 16
        while time.thread_time() < end:
            length += 1
            re.match("(a+)+$", "a" * length + "b")

    assert seconds_held(lambda: asyncio.to_thread(match)) >= HOLD_S / 4


def test_a_thread_that_waits_for_a_core_is_not_held():
    """Four threads without Python's lock share one core with the loop, whose thread has the lowest priority. A busy
    host may stop the machine for a moment, so one try of five must be without a hold.
    """
    found = []

    def share():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # of this thread and of those that it starts
        over = threading.Event()

        def compute():
            while not over.is_set():
                hashlib.sha256(LONG)  # without the lock

        busy = [threading.Thread(target=compute) for _ in range(4)]
        for each in busy:
            each.start()
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        while len(found) < 5 and min(found, default=1.0) > SLACK_S:
            found.append(seconds_held(lambda: asyncio.sleep(1.0)))
        over.set()
        for each in busy:
            each.join()

    sharing = threading.Thread(target=share)
    sharing.start()
    sharing.join()
    assert min(found) <= SLACK_S
