"""The attacks of this folder, again and again, against one server whose memory and holds are measured.

    nice python -m tests.protocols.hour --how processes --seconds 3600

Every ten seconds another client asks, and memory, open files and the longest hold are read. An attack during which the
event loop was held is repeated, as in tests/helpers/holding.py. At the end the server must be ready, without an answer
of 500 and without a traceback in its log. The results are:

attacks     Number of attacks: one part of one suite.
exchanges   Number of connections and requests.
different   Number of attacks with an answer that the suite does not want.
longest     Seconds of the longest exchange. Attacks by slow clients last a few seconds.
other       Seconds of the longest wait of the other client.
held        Number of holds above 20 ms, and the longest hold in ms.
again       Number of attacks that hold the loop each time.
memory      MiB of all processes (PSS) after a third and at the end, and the slope of a line over the last two thirds,
            in MiB per hour.
files       Open files at the beginning and at the end.
"""

import argparse
import itertools
import re
import statistics
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

import httpx

from tests.helpers.holding import held, holds
from tests.helpers.server import PLAIN, wait_for_children
from tests.protocols import test_frames, test_json, test_slow, test_streams, test_urls
from tests.protocols.requests import KNOWN
from tests.protocols.ways import running

EVERY_S, REQUEST_S = 10, 3.0
EXCHANGE_MAX_S = 30
STEP = 30
"""Bytes between two places at which a stream is cut. Each round cuts at other places."""


def cut_streams(way, part, turn):
    for k, stream in enumerate(KNOWN[part]):
        for at in range(1 + (k + 7 * turn) % STEP, len(stream), STEP if len(stream) < 1_000 else 10_007):
            test_streams.check(way, stream, at)


def texts(way, door):
    found = {}
    for name, text in test_json.CASES.items():
        if door != "a query" or len(test_json.quote(text)) < test_json.URL_BYTES_MAX:
            found[name] = test_json.DOORS[door](way, text=text)
    assert test_json.wrong(found) == {}


def attacks(turn):
    """Return the attacks of a round: name, and a function of a way."""
    yield from ((f"cut: {part}", partial(cut_streams, part=part, turn=turn)) for part in KNOWN)
    yield "offers", test_streams.test_an_offer_to_speak_another_protocol_changes_nothing
    yield "any stream", test_streams.test_any_stream_gets_the_answers_to_the_requests_that_h11_finds
    for test, parts in (
        (test_frames.test_frames_are_answered_and_the_socket_stays_open, test_frames.FINE),
        (test_frames.test_a_fault_closes_the_socket_with_its_code, test_frames.FAULTS),
        (test_urls.test_what_is_not_utf_8_is_refused_and_everything_else_gets_an_answer, test_urls.TARGETS),
        (test_streams.test_many_small_parts_hold_nobody_up_and_all_are_answered, test_streams.SMALL),
        (texts, test_json.DOORS),
        (test_slow.test_others_are_answered_meanwhile_and_nothing_stays, test_slow.ATTACKS),
    ):
        for part in parts:
            yield f"{test.__name__}: {part}", lambda way, test=test, part=part: test(way, part)
    yield "byte by byte", test_frames.test_frames_may_come_byte_by_byte
    yield "any frames", test_frames.test_any_frames_are_taken_as_wsproto_takes_them
    for before in (b'{"op":"predict","ref":"r","x":[0,1],"what":', b'{"examples":[' + test_json.ROWS + b'],"what":'):
        test = test_json.test_a_frame_is_read_or_refused_and_the_socket_stays_open
        yield "JSON in frames", partial(test, before=before)


class Watch(threading.Thread):
    """Reads what the server takes, every ten seconds."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.samples, self.done = server, [], threading.Event()
        self.start()

    def run(self):
        with httpx.Client(base_url=self.server.url, verify=PLAIN, timeout=EXCHANGE_MAX_S) as http:
            while not self.done.wait(EVERY_S):
                start = time.monotonic()
                http.get("/readyz")
                waited = time.monotonic() - start
                told = http.get("/metrics").text
                hold = max(map(float, re.findall(r"(?m)^hinged_loop_hold_longest_seconds.* (\S+)$", told)))
                pids = [self.server.process.pid, *wait_for_children(self.server.process.pid, 0)]
                memory = sum(
                    int(re.search(r"\nPss: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())[1]) for pid in pids
                )
                files = sum(len([*Path(f"/proc/{pid}/fd").iterdir()]) for pid in pids)
                self.samples.append((start, waited, 1000 * hold, memory / 1024, files))


def attack(way, seconds, results):
    """Attack in rounds for so many seconds."""
    end, before = time.monotonic() + seconds, 0
    for turn in itertools.count():
        for name, send in attacks(turn):
            if time.monotonic() > end:
                return
            results["attacks"] += 1
            try:
                _, found = held(way, lambda send=send: send(way))
            except Exception:  # noqa: BLE001  whatever an attack raises, the next attack follows
                results["different"] += 1
                print(f"{name}: {traceback.format_exc()}", flush=True)
                continue
            results["again"] += found is not None
            if (count := holds(way)[0]) > before:
                before = count
                print(f"{name}: {count:.0f} holds so far, {found or 'not'} each time", flush=True)


def main(how, seconds):
    """Attack a server that runs in this way; return the results."""
    results = Counter(attacks=0, different=0, again=0)
    with tempfile.TemporaryDirectory() as folder, running(how, Path(folder), request_s=REQUEST_S) as way:
        watch = Watch(way.server)
        attack(way, seconds, results)
        time.sleep(3 * EVERY_S)
        watch.done.set()
        watch.join()
        found = dict(results) | {
            "exchanges": way.exchanges,
            "longest": round(way.longest_s, 1),
            "held": round(holds(way)[0]),
        }
    starts, waits, hold, memory, files = zip(*watch.samples, strict=True)
    third = len(starts) // 3
    line = statistics.linear_regression(starts[third:], memory[third:])
    return found | {
        "other": round(max(waits), 2),
        "held longest": round(max(hold)),
        "memory": f"{memory[third]:.0f}, {memory[-1]:.0f}, {3600 * line.slope:+.1f} per hour",
        "files": f"{files[0]}, {files[-1]}",
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--how", choices=("alone", "processes", "nginx"), default="alone")
    parser.add_argument("--seconds", type=int, default=3600)
    options = parser.parse_args()
    results = main(options.how, options.seconds)
    print(f"{options.how}:", "; ".join(f"{what}: {found}" for what, found in results.items()))
    sys.exit(any((results["different"], results["again"], results["longest"] > EXCHANGE_MAX_S)))
