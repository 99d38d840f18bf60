"""Faults of a server under load, one function for each. `scene` is healthy before and after."""
# ruff: noqa: ARG001  all faults have the same arguments

import os
import subprocess
import time


def kill_server(scene, rng):
    """Send kill -9 to the server."""
    scene.server.kill_all()
    scene.server.start()


def stop_server(scene, rng):
    """Send SIGTERM. Requests in progress are answered within the time to drain."""
    start = time.monotonic()
    code = scene.server.terminate()
    took_s = time.monotonic() - start
    assert code == 0, code
    assert took_s < scene.settings["shutdown_s"] + 20, took_s
    scene.server.start()


def kill_redis(scene, rng):
    """Send kill -9 to Redis, and restart it after a moment."""
    scene.redis.kill()
    time.sleep(rng.uniform(0, 0.3))
    scene.redis.start()


def kill_both(scene, rng):
    """Kill the server and Redis, like a failure of the machine in which data that is not yet on the disk survives."""
    scene.server.kill_all()
    scene.redis.kill()
    scene.redis.start()
    scene.server.start()


def pause_redis(scene, rng):
    """Stop Redis for longer than the server waits. Then Redis continues with the requests that it received."""
    scene.redis.pause()
    time.sleep(rng.uniform(1.2, 1.6))
    scene.redis.go_on()


def empty_redis(scene, rng):
    """Remove all data from Redis, and restore it after a while."""
    scene.redis.empty()
    time.sleep(rng.uniform(0.05, 0.4))
    scene.redis.fill()


def cut(scene, rng):
    """Cut the connections to Redis, some of them after a request was sent."""
    if rng.random() < 0.5:
        scene.line.swallow()
        time.sleep(rng.uniform(0, 0.05))
    scene.line.cut()


def hold(scene, rng):
    """Let requests of the server arrive after the server has given up waiting."""
    scene.line.hold()
    time.sleep(rng.uniform(1.05, 1.5))
    scene.line.deliver()


def slow(scene, rng):
    """Delay every packet to and from Redis."""
    scene.line.delay_s = rng.uniform(0.02, 0.2)
    time.sleep(rng.uniform(0.2, 0.8))
    scene.line.delay_s = 0.0


def _failing(scene, rng, fault):
    scene.begin(fault)
    time.sleep(rng.uniform(0.05, 0.3))
    scene.end(fault)
    if scene.redis is not None:
        _revive_redis(scene)


def fsync_fails(scene, rng):
    """Make fsync fail with an I/O error. Redis then ends itself, as it should."""
    _failing(scene, rng, "fsync")


def write_fails(scene, rng):
    """Make writes to files fail with an I/O error."""
    _failing(scene, rng, "write")


def disk_full(scene, rng):
    """Fill the file system for a moment."""
    ballast = scene.data / "ballast"
    if os.path.ismount(scene.data):
        with ballast.open("wb", buffering=0) as file:
            try:
                for size in (2**16, 2**10, 1):
                    while True:
                        try:
                            file.write(bytes(size))
                        except OSError:
                            break
            finally:
                time.sleep(rng.uniform(0.05, 0.3))
        ballast.unlink()
        if scene.redis is not None:
            _revive_redis(scene)
    else:
        _failing(scene, rng, "full")


def clock_back(scene, rng):
    """Set the clock back by an hour, for the server and for Redis. It stays set back when the server is restarted."""
    scene.begin("clock")
    time.sleep(rng.uniform(0.1, 0.2))
    scene.server.kill_all()
    scene.server.start()
    time.sleep(rng.uniform(0.1, 0.2))
    scene.end("clock")


def second_server(scene, rng):
    """Start another server on the store. The first server must end on its own, and the second continues."""
    first, second = scene.server, scene.another_server()
    second.start()
    assert first.process.wait(30) == 0  # exit code 0, because a restart would take the store back
    assert "another server has taken over the store" in first.log.read_text()
    scene.server = second
    scene.front.target = second.port
    scene.front.cut()


def impatient(scene, rng):
    """Cause no fault. Clients wait at most a few milliseconds, and ask again."""
    time.sleep(0.3)


def _revive_redis(scene):
    """Restart Redis after its disk failed, as a supervisor does."""
    try:
        scene.redis.process.wait(0.2)
    except subprocess.TimeoutExpired:
        return
    scene.redis.start()


BOTH = (kill_server, stop_server, fsync_fails, write_fails, disk_full, clock_back, impatient)
ON_REDIS = (kill_redis, kill_both, pause_redis, cut, hold, slow, second_server, empty_redis)
FAULTS = {fault.__name__.replace("_", "-"): fault for fault in (*BOTH, *ON_REDIS)}
NEED_LIBRARY = {fsync_fails, write_fails, disk_full, clock_back}
