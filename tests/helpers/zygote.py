"""Fork servers from a process that has already imported the modules. Each start saves two seconds.

With server.forked = start, `hinged serve` still runs in a separate process with its own environment, log and signals.
But the forked process already contains its modules and the usual kernels. The same is true of a program that a test
runs instead of `hinged serve`, and of the processes that a supervisor starts.

A server is started without a fork if its environment differs from the tests' environment in a variable that a program
reads when it starts. There is one exception. Tests start servers with LD_PRELOAD again and again, so these servers are
forked from a second process.
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

READ_AT_START = ("HOME", "LD_", "MALLOC_", "NUMBA_", "OMP_", "OPENBLAS_", "PYTHON", "TZ", "XDG_")
"""Prefixes of variables that the loader, Python and the imported modules read. A running server may read any other."""
BEGUN = dict(os.environ)
"""The environment with which the tests began. Tests and libraries change variables later."""
PROCESS = "hinged.service"


class Forked:
    """A server with the interface of subprocess.Popen. Its parent is the zygote, which knows its exit code."""

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
    """The process from which servers are forked. It ends when the test process ends.

    start: the variables of its environment that a program reads at its start.
    """

    def __init__(self, env):
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, env=env | {"OPENBLAS_NUM_THREADS": "1"}, cwd=Path(__file__).parents[2],
            )  # fmt: skip
        self._answers = self._line.makefile("r")
        self.start = read_at_start(env)

    def ask(self, request):
        with self._lock:
            self._line.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(self._answers.readline())

    def close(self):
        self._answers.close()
        self._line.close()
        self._process.wait()


_zygotes = []  # the zygote of the tests' environment, then perhaps the zygote of the newest LD_PRELOAD


def read_at_start(env):
    """Return the variables of an environment that a program reads at its start."""
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START)}


def start(program, env, log):
    """Fork a server with this environment that appends to this log; return None if the environment does not allow a
    fork.
    """
    if not _zygotes:
        _zygotes.append(Zygote(BEGUN))
        atexit.register(_close)
    wanted = read_at_start(env)
    if "LD_PRELOAD" in wanted and all(zygote.start != wanted for zygote in _zygotes):
        _close(1)
        _zygotes[1:] = [Zygote(env)]
    for zygote in _zygotes:
        if zygote.start == wanted:
            return Forked(zygote, zygote.ask({"program": program, "env": env, "log": str(log)}))
    return None


def _close(begin=0):
    for zygote in _zygotes[begin:]:
        zygote.close()


def _serve(request):
    """In a forked process, do what `python -m hinged serve` or another program does."""
    os.setsid()
    os.environ.clear()
    os.environ.update(request["env"])
    with open(request["log"], "ab") as log:  # noqa: PTH123  opened in the same way as the test opens its log
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    subprocess.Popen = _Popen
    sys.argv = ["hinged", "serve"]
    _, module = request["program"]
    runpy.run_module(module, run_name="__main__")


class _Popen(subprocess.Popen):
    """Forks the server's processes from the supervisor, which has already imported their modules and
    computes nothing.
    """

    def __init__(self, command, **how):
        if tuple(command[:3]) == (sys.executable, "-m", PROCESS):
            how["preexec_fn"] = lambda: _work(command[3:], how["pass_fds"], how["env"])
        super().__init__(command, **how)


def _work(arguments, descriptors, env):
    """In a forked process, run one of the server's processes instead of executing another program."""
    code = 1
    try:
        kept = {0, 1, 2, *descriptors}
        for descriptor in {int(name) for name in os.listdir("/proc/self/fd")} - kept:  # noqa: PTH208  one descriptor belongs to the listing itself
            with suppress(OSError):
                os.close(descriptor)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as when Python starts; subprocess has reset it
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
    except BaseException:  # noqa: BLE001  the whole process ends with this error
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)


def _main(descriptor):
    """Fork a server for each request, and answer a request about an ended server with its exit code.

    When the requests end, kill all running servers.
    """
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end this process
    import hinged.commands.cli  # what `hinged serve` imports when it runs
    import hinged.service.app  # noqa: F401
    from hinged.solvers.warm import warm_up

    warm_up("auto")
    gc.collect()
    gc.freeze()
    (only_thread,) = Path("/proc/self/task").iterdir()  # a fork keeps no other thread
    _main(int(sys.argv[1]))
