"""Run Python programs in processes forked from a process that has numba imported and its compiler ready.

A test that compiles, or loads compiled code, needs a process of its own with its own cache. Starting such a process
takes a second, and two thirds of the second are numba: the fork saves them. The fork contains nothing of hinged.
"""

import atexit
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path
from types import SimpleNamespace

ALIKE = ("NUMBA_CACHE_DIR", "PYTHONPATH")
"""Variables of NUMBA_* and PYTHON* that may differ in a forked program: it applies them itself."""
REQUEST_BYTES = 2**17
ROOT = Path(__file__).parents[2]
_mothers = []


def start(arguments, env, cwd):
    """Start `python ...` and return an object with `communicate` and `returncode`.

    arguments: a file, or "-c" and a program, then the program's arguments.
    """
    arguments = [*map(str, arguments)]
    if not hasattr(socket, "SOCK_SEQPACKET") or _differs(env):
        return subprocess.Popen(
            [sys.executable, *arguments], env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    if not _mothers:
        _mothers.append(_Mother())
        atexit.register(_mothers[0].close)
    return _mothers[0].fork({"arguments": arguments, "env": env, "cwd": str(cwd)})


def run(arguments, env, cwd):
    """Run `python ...` to its end; return its exit code and its output."""
    process = start(arguments, env, cwd)
    stdout, stderr = process.communicate()
    return SimpleNamespace(returncode=process.returncode, stdout=stdout, stderr=stderr)


def _differs(env):
    """Whether an environment differs from the current one in variables that Python or numba read at start."""
    names = {name for name in {**env, **os.environ} if name.startswith(("NUMBA_", "PYTHON"))} - {*ALIKE}
    return any(env.get(name) != os.environ.get(name) for name in names)


class Forked:
    """A running program, with the part of subprocess.Popen's interface that the tests use."""

    def __init__(self, mother, pid, stdout, stderr):
        self._mother, self._pid = mother, pid
        self._written = stdout, stderr
        self.returncode = None

    def communicate(self):
        """Wait for the program's end; return its stdout and stderr."""
        stdout, stderr = self._written
        found = []
        reading = threading.Thread(target=lambda: found.append(stderr.read()), daemon=True)
        reading.start()
        with stdout, stderr:
            said = stdout.read()
            reading.join()
        self.returncode = self._mother.ask({"ended": self._pid})
        return said, *found


class _Mother:
    """The process from which programs are forked. It ends with the test process."""

    def __init__(self):
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
            )

    def ask(self, request, *descriptors):
        socket.send_fds(self._line, [json.dumps(request).encode()], descriptors)
        return json.loads(self._line.recv(REQUEST_BYTES))

    def fork(self, request):
        (stdout, its_stdout), (stderr, its_stderr) = os.pipe(), os.pipe()
        pid = self.ask(request, its_stdout, its_stderr)
        os.close(its_stdout)
        os.close(its_stderr)
        return Forked(self, pid, os.fdopen(stdout), os.fdopen(stderr))

    def close(self):
        self._line.close()
        self._process.wait()


def _become(request, descriptors):
    """Run the program in the process that was forked for it."""
    for number, descriptor in zip((1, 2), descriptors, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    numba.config.reload_config()
    sys.path[:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    first, *others = request["arguments"]
    if first != "-c":
        sys.argv = [first, *others]
        runpy.run_path(first, run_name="__main__")
        return
    program, *others = others
    sys.argv = ["-c", *others]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), vars(main))  # noqa: S102  the test's own program


def _main(descriptor):
    """Fork a process for each request to run a program; answer a request about an ended process with its exit code."""
    line = socket.socket(fileno=descriptor)
    while True:
        told, descriptors, _, _ = socket.recv_fds(line, REQUEST_BYTES, 2)
        if not told:
            return
        request = json.loads(told)
        if "ended" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
        elif not (answer := os.fork()):
            line.close()
            _become(request, descriptors)
            return
        for each in descriptors:
            os.close(each)
        line.send(json.dumps(answer).encode())


if __name__ == "__main__":
    import numba

    numba.njit(lambda x: x + 1)(1)
    _main(int(sys.argv[1]))
