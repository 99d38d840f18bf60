"""What of a solver is compiled already, and saying so while the rest is: the first use on a machine takes a while.

numba compiles a function when it is first called, and keeps what came of it in a file of its own. So the functions that
a class refers to, directly and through others, and those of them whose file is there, tell how far it is. Where nearly
all are lacking, processes beside this one compile them (crew.py), at the same time.
"""

from __future__ import annotations

import sys
import threading
import time
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba.core import event
from numba.core.dispatcher import Dispatcher

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.crew import compile_beside, compiling_alone
from hinged.solvers.scores.sigmoid import Sigmoid
from hinged.solvers.scores.tally import Tally

OURS = "hinged.solvers."
REFRESH_S = 0.2
FEWEST = 3  # whose compilation is worth a word
MANY = 30  # functions that processes beside this one compile sooner, their start included
PAUSE_S = 1.5  # without the compiler, after which the bar makes way


class Functions:
    """The compiled functions of a solver by its name."""

    def __init__(self, name: str, *besides: type) -> None:
        self.name = name
        self._functions = _reached(SOLVERS[name].make, *besides)

    def __len__(self) -> int:
        return len(self._functions)

    def there(self) -> int:
        """How many are compiled, in whatever process."""
        return sum(function.is_there() for function in self._functions)


@cache
def of_a_server(name: str) -> Functions:
    """The functions that a server runs for a model of this solver."""
    return Functions(name, Sigmoid, Tally)


def _reached(*roots: Any) -> list[Any]:
    """The dispatchers that methods of classes, and what these call, refer to by name."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    left = list(roots)
    while left:
        thing = left.pop()
        if isinstance(thing, Dispatcher):
            found[id(thing)] = thing
            thing = thing.py_func
        if id(thing) in seen or not str(getattr(thing, "__module__", "")).startswith(OURS):
            continue
        seen.add(id(thing))
        if isinstance(thing, type):
            left += [part for kind in thing.__mro__ if kind.__module__.startswith(OURS) for part in vars(kind).values()]
        elif isinstance(thing, FunctionType):
            left += [thing.__globals__[name] for name in _names(thing.__code__) if name in thing.__globals__]
            left += [cell.cell_contents for cell in thing.__closure__ or ()]
    return list(found.values())


def _names(code: CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def compile_many(name: str, dtype: type) -> None:
    """Within `told`, and before the solver of this name runs: if it lacks much, have other processes compile it.

    One process of a machine at a time has it compiled, and others load it then. What fails is compiled here, as it is
    called.
    """
    if (name, dtype) in _seen:
        return
    _seen.add((name, dtype))
    functions = Functions(name)
    if len(functions) - functions.there() < MANY:
        return
    telling = _here.telling
    telling.begin_one()
    try:
        with compiling_alone():
            if len(functions) - functions.there() >= MANY:
                compile_beside([name, np.dtype(dtype).name, "learn,finish"])
    finally:
        telling.end_one()


_seen: set[tuple[str, type]] = set()

# -- saying so --------------------------------------------------------------------------------------------------------

_here = threading.local()


class told:  # noqa: N801  it is used as a function: an object of its own costs a learned example half as much
    """Tell on stderr that functions of this solver are compiled, if the block compiles any: a line, and in a terminal
    a bar.
    """

    __slots__ = ("_depth", "_ended", "_inner", "_last", "_name", "_thread")

    def __init__(self, name: str) -> None:
        self._name = name
        self._inner = False
        self._depth = 0  # of functions that are compiled for others
        self._last = 0.0
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._inner = getattr(_here, "telling", None) is not None  # by the block around this one
        if not self._inner:
            _here.telling = self

    def __exit__(self, *_: object) -> None:
        if not self._inner:
            _here.telling = None
            self._end()

    def begin_one(self) -> None:
        """A function is about to be compiled."""
        self._depth += 1
        if self._thread is not None:
            return
        functions = Functions(self._name)
        left = len(functions) - functions.there()
        if left < FEWEST:
            return
        how_long = "about half a second each, on this machine only once"
        print(f"hinged: compiling {left} functions of {self._name}, {how_long}", file=sys.stderr)  # noqa: T201
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, args=(functions,), daemon=True)
        if sys.stderr.isatty():
            self._thread.start()

    def end_one(self) -> None:
        """It is."""
        self._depth -= 1
        self._last = time.monotonic()

    def _end(self) -> None:
        if self._thread is not None:
            self._ended.set()
            if self._thread.is_alive():
                self._thread.join()

    def _show(self, functions: Functions) -> None:
        """A bar while the compiler works, which may be a part of what is done."""
        from rich.console import Console  # noqa: PLC0415  nobody else needs it
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

        columns = TextColumn("compiling"), BarColumn(), MofNCompleteColumn()
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=len(functions))
            while not self._ended.wait(REFRESH_S):
                bar.update(task, completed=functions.there())
                if not self._depth and time.monotonic() - self._last > PAUSE_S:
                    break


class _Listener(event.Listener):
    """Hears of each function that is compiled, in the thread that compiles it."""

    def on_start(self, event: Any) -> None:
        """Before a function is compiled."""
        telling = getattr(_here, "telling", None)
        if telling is not None and event.data["dispatcher"].py_func.__module__.startswith(OURS):
            telling.begin_one()

    def on_end(self, event: Any) -> None:
        """Afterwards."""
        telling = getattr(_here, "telling", None)
        if telling is not None and event.data["dispatcher"].py_func.__module__.startswith(OURS):
            telling.end_one()


# For good: numba's list of listeners is no place to come and go from several threads.
event.register("numba:compile", _Listener())
