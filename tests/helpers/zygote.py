"""Servers forked from one process that has imported them already: two seconds less for each start of a test.

With server.forked = start, `hinged serve` runs in a process of its own as always, with an environment, a log and
signals of its own, but its modules and the usual kernels come with the fork; so does a script that serves in its place,
and so do the processes that a supervisor starts.
What wants another environment than the tests have, but for OTHERS, is started from nothing; but servers with a library
before all others (LD_PRELOAD), which are started again and again, have a process of their own to be forked from.
"""

import asyncio
import atexit
import gc
import json
import logging
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

OTHERS = ("HINGED_", "OTEL_", "PYTEST_", "SLOW_")
"""What begins so in an environment is read once a server runs, not as modules are imported; and a test's own name."""
HINGED = ("-m", "hinged")
PROCESS = "hinged.service"


class Forked:
    """A server as subprocess.Popen would have it; its parent is the zygote, which knows how it ended."""

    def __init__(self, zygote, pid):
        self._zygote = zygote
        self._end = os.pidfd_open(pid)
        self.pid = pid
        self.returncode = None

    def poll(self):
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("hinged serve", timeout)
            self.returncode = self._zygote.ask({"ended": self.pid})
        return self.returncode

    def send_signal(self, number):
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._end, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def __del__(self):
        os.close(self._end)


class Zygote:
    """The process that forks, ended with this one."""

    def __init__(self, env):
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, env=env | {"OPENBLAS_NUM_THREADS": "1"}, cwd=Path(__file__).parents[2],
            )  # fmt: skip
        self._answers = self._line.makefile("r")
        self.env = env

    def ask(self, request):
        with self._lock:
            self._line.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(self._answers.readline())

    def close(self):
        self._answers.close()
        self._line.close()
        self._process.wait()


_zygotes = []  # the one for the tests' environment, and the last one for another


def plain(env):
    """An environment without what differs from test to test."""
    return {name: value for name, value in env.items() if not name.startswith(OTHERS)}


def start(program, env, log):
    """The process of a server with this environment that appends to this log; None if it cannot come from a fork."""
    if not _zygotes:
        _zygotes.append(Zygote(plain(os.environ)))
        atexit.register(_close)
    wanted = plain(env)
    if "LD_PRELOAD" in wanted and all(zygote.env != wanted for zygote in _zygotes):
        _close(1)
        _zygotes[1:] = [Zygote(wanted)]
    for zygote in _zygotes:
        if zygote.env == wanted:
            return Forked(zygote, zygote.ask({"program": program, "env": env, "log": str(log)}))
    return None


def _close(begin=0):
    for zygote in _zygotes[begin:]:
        zygote.close()


def _serve(request):
    """What `python -m hinged serve`, or a module in its place, does in the process that was forked for it."""
    os.environ.clear()
    os.environ.update(request["env"])
    with open(request["log"], "ab") as log:  # noqa: PTH123  as it was opened by whoever starts it
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    subprocess.Popen = _Popen
    sys.argv = ["hinged", "serve"]
    _, module = request["program"]
    runpy.run_module(module, run_name="__main__")


class _Popen(subprocess.Popen):
    """Its processes are forked, too: from the supervisor, which has imported what they import and computes nothing."""

    def __init__(self, command, **how):
        if tuple(command[:3]) == (sys.executable, "-m", PROCESS):
            how["preexec_fn"] = lambda: _work(command[3:], how["pass_fds"], how["env"])
        super().__init__(command, **how)


def _work(arguments, descriptors, env):
    """Be one of them, in the process that was forked for it, instead of becoming another program."""
    code = 1
    try:
        kept = {0, 1, 2, *descriptors}
        for descriptor in {int(name) for name in os.listdir("/proc/self/fd")} - kept:  # noqa: PTH208  one is its own
            with suppress(OSError):
                os.close(descriptor)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python begins; subprocess has undone it
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
        asyncio._set_running_loop(None)
        asyncio.set_event_loop_policy(None)
        logging.root.handlers.clear()
        os.environ.clear()
        os.environ.update(env)
        Path("/proc/self/comm").write_text(f"process {arguments[0]}")
        sys.argv = [PROCESS, *arguments]
        runpy.run_module(PROCESS, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  it is the whole process that ends so
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)


def _main(descriptor):
    """Fork for each line that asks for it, and tell how the others ended. At the end of the lines all of them end."""
    running = set()
    line = socket.socket(fileno=descriptor)
    for text in line.makefile("r"):
        request = json.loads(text)
        if "ended" in request:
            running.discard(request["ended"])
            answer = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
        elif answer := os.fork():
            running.add(answer)
        else:
            line.detach()
            os.close(descriptor)
            _serve(request)
        line.sendall(json.dumps(answer).encode() + b"\n")
    for pid in running:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; what is to be done, the tests say
    import hinged.commands.cli  # what `hinged serve` imports when it runs
    import hinged.service.app  # noqa: F401
    from hinged.solvers.warm import warm_up

    warm_up("auto")
    gc.collect()
    gc.freeze()
    (only_thread,) = Path("/proc/self/task").iterdir()  # others would be missing after a fork
    _main(int(sys.argv[1]))
