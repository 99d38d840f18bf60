"""The store on Redis. Each model's log is a stream, and its snapshots are hashes of chunks, all in one namespace.

The keys of a model contain its name as hash tag. So the keys share a slot, and one script can change all of them. One
script checks the epoch and the end of the log, and writes the events and their ids (scripts.py).

A server that opens the store takes it over. It gets a higher epoch than all earlier servers and writes this epoch into
every model. From then on Redis refuses servers with a lower epoch. Servers that share a store claim each model
separately (shared.py).

An append whose answer is lost may still arrive at any time. Before the store reads the end of that log again, it gives
up the append: it records the append's number durably. If the append arrives later, it is refused.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hinged.service.errors import Invalid, StoreUnavailable
from hinged.service.store.base import Event, Fenced, NoModel, OutcomeUnknown, PositionTaken, Store
from hinged.service.store.checks import check_places, sound
from hinged.service.store.division import check_processes, name_of
from hinged.service.store.redis import chunks, scripts
from hinged.service.store.redis.nodes import Nodes
from hinged.service.store.redis.packing import BATCH_BYTES, BATCH_EVENTS, Packed, missing, pack, pack_event, unpack
from hinged.service.store.redis.rebuilding import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hinged.service.store.redis.scripts import Script, Steps

log = logging.getLogger(__name__)

TRIM_EVENTS = 1_000
"""Maximum number of events that are trimmed in one step. A larger value blocks Redis for longer."""
QUESTION_IDS = 1_000
"""Maximum number of ids in one query."""


class RedisStore(Store):
    """A store on the server or cluster at `url`, in `namespace`.

    on_fenced: called once when another server takes over the store. durable: whether to refuse a server that does not
    fsync before it answers. reading: whether to only read, while another process owns the store. number: number of the
    process that owns this part. division: number of parts of the namespace, 0 if it is not divided. Raise Invalid if
    the namespace is divided differently.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "hinged",
        durable: bool = True,
        timeout_s: float = 5.0,
        on_fenced: Callable[[str], None] | None = None,
        reading: bool = False,
        number: int = 1,
        division: int = 0,
    ) -> None:
        self.commits = None
        whole = namespace
        namespace = self._namespace = f"{whole}:{name_of(number, division)}" if division else whole
        self._on_fenced = on_fenced
        self._owner = ""  # owner of the models that it creates, if several servers share the store
        # "-" cannot be a model's name, because names begin with a letter or a digit.
        self._list = [f"{namespace}:{{-}}:{part}" for part in ("epoch", "models", "rewriting")]
        self._numbers = count(1)
        self._naming = Lock()  # while a name is removed from the list, no model is created with it
        self._rebuilding = Lock()  # only one log is copied at a time, because the copy needs as much memory as the log
        self._purging = Lock()  # one purge at a time, because a purge writes notes into Redis
        self._guard = Lock()  # guards _unknown and _in_progress
        self._unknown: dict[str, int] = {}  # by model: number of the last append whose outcome is unknown
        self._in_progress: set[str] = set()  # names of the snapshots being written
        self._nodes = Nodes(url, durable=durable, timeout_s=timeout_s)
        self._epoch = 0  # an epoch with which nothing can be written
        if reading:
            return
        try:
            self._check_division(whole, division)
            self._epoch = self._take_over()
        except BaseException:
            self._nodes.close()
            raise
        (log.info if durable else log.warning)("every acknowledged write %s", self._nodes.promise)

    def models(self) -> list[str]:
        """Return the listed names that have a model."""
        listed = sorted(name.decode() for name in self._nodes.ask("SMEMBERS", self._list[1]))
        return [name for name in listed if self._nodes.ask("HGET", self._keys(name)[1], "born")]

    def create(self, model: str, first: Event) -> None:
        """Add the name to the list, then begin the log."""
        packed = pack(0, [first])
        with self._naming:
            self._change_list(scripts.LIST, "SADD", 2, model)
            word, _ = self._write(
                model, scripts.CREATE, uuid4().hex, next(self._numbers), *packed, self._owner, lasting=True
            )
        if word == "exists":
            raise KeyError(model)

    def delete(self, model: str) -> None:
        """Remove all keys of the model in one step; Redis frees the memory in the background."""
        with self._naming:
            self._write(model, scripts.DELETE, self._born(model), lasting=True)
            with suppress(StoreUnavailable):  # a name without a model is harmless; the next opening removes it
                self._change_list(scripts.UNLIST, "SREM", 2, model)

    def append(self, model: str, after: int, events: Sequence[Event]) -> int:
        """Append in one step, and wait until the events are fsynced."""
        packed = pack(after, events)
        self._give_up(model)
        number = next(self._numbers)
        try:
            word, found = self._write(model, scripts.APPEND, "", number, *packed, lasting=True)
        except OutcomeUnknown:
            with self._guard:
                self._unknown[model] = max(number, self._unknown.get(model, 0))
            raise
        if word == "taken":
            raise PositionTaken(f"the log of {model} ends at {int(found[0])}, not at {after}")
        if word == "void":
            raise StoreUnavailable(f"an append to {model} was overtaken by an append of unknown outcome")
        return after + len(events)

    def end(self, model: str) -> int:
        """Return the position of the last event."""
        self._give_up(model)
        return self._state(model)[1]

    def read(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Yield the events after `after`. They are read a batch at a time."""
        return sound(model, self._open_log(model, after))

    def read_around(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Do the same as `read`, but yield Lost events."""
        return self._open_log(model, after)

    def _open_log(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        self._give_up(model)
        born, end, trimmed = self._state(model)
        return self._read(model, born, max(after, trimmed), end)

    def find(self, model: str, ids: Sequence[str]) -> dict[str, int]:
        """Return positions from the index."""
        found: dict[str, int] = {}
        for start in range(0, max(1, len(ids)), QUESTION_IDS):
            asked = ids[start : start + QUESTION_IDS]
            trimmed, positions = self._call(model, scripts.FIND, "", *asked)[1]
            for name, position in zip(asked, positions, strict=True):
                if position is not None and int(position) > int(trimmed):
                    found[name] = int(position)
        return found

    def put_snapshot(self, model: str, position: int, state: bytes) -> None:
        """Write the chunks; then, in one step, make them visible and remove snapshots that are no longer kept."""
        name, born = uuid4().hex, self._born(model)
        with self._guard:
            others = [*self._in_progress]
            self._in_progress.add(name)
        try:
            word, found = self._write(model, scripts.BEGIN_SNAPSHOT, born, name, position, *others)
            if word == "short":
                raise PositionTaken(f"the log of {model} ends at {int(found[0])}, not at {position} or later")
            chunks.write(self._steps(model, born), model, name, position, state)
        finally:
            with self._guard:
                self._in_progress.discard(name)

    def snapshots(self, model: str) -> list[int]:
        """Return the positions of the snapshots, newest first."""
        self._born(model)
        fields = self._nodes.ask("HKEYS", self._keys(model)[4])
        return sorted((int(field) for field in fields if field.isdigit()), reverse=True)

    def get_snapshot(self, model: str, position: int) -> bytes:
        """Read the chunks; begin again if the snapshot is replaced meanwhile."""
        self._born(model)
        return chunks.read(self._nodes.ask, self._keys(model)[4], model, position)

    def trim(self, model: str, through: int) -> None:
        """Remove the first events, a slice at a time, and then their ids."""
        self._give_up(model)
        born, more = self._born(model), 1
        while more:
            more, through = self._write(model, scripts.TRIM, born, through, TRIM_EVENTS, lasting=True)[1]
        self._trim_ids(model, born, through)

    def redact(self, model: str, through: int, events: Mapping[int, Event], ids: Sequence[str]) -> None:
        """Replace the log with a copy that contains the new events, and remove the ids in the same step."""
        check_places(through, events)
        others = {place: pack_event(place, event) for place, event in sorted(events.items())}
        names = [name.encode() for name in ids]
        self._give_up(model)
        self._rebuild(model, through, others, names)

    def purge(self) -> list[str]:
        """Copy trimmed logs, because their streams still contain the trimmed events; then let Redis rewrite its files.

        A Redis server that is killed while it rewrites leaves a file with all its data that nobody removes. So each
        rewriting is first noted in Redis; a note that remains belongs to a server that never finished.
        """
        told = []
        for model in self.models():
            try:
                trimmed, clean, rest = self._nodes.ask("HMGET", self._keys(model)[1], "trimmed", "clean", "rebuilding")
                if rest or int(trimmed or 0) > int(clean or 0):
                    self._trim_ids(model, self._born(model), int(trimmed))
                    self._rebuild(model, 0, {}, [])
            except NoModel:  # the model was deleted meanwhile
                continue
            except StoreUnavailable as error:
                told.append(f"The log of {model} may still hold what was removed: {error}.")
        with self._purging:
            told += self._nodes.rewrite(self._note)
            torn = self._nodes.ask("HVALS", self._list[2])
        return told + [
            f"{name.decode()} was stopped while it rewrote its files: a file temp-* that this left in its folder "
            f"may hold what was removed. Remove it, then the key {self._list[2]}."
            for name in sorted({*torn})
        ]

    @contextmanager
    def _note(self, name: str, run: str) -> Iterator[None]:
        """Write a note that a server rewrites its files; remove the note if the block ends without an exception."""
        self._change_list(scripts.UNLIST, "HSET", 3, run, name)
        yield
        self._change_list(scripts.UNLIST, "HDEL", 3, run)

    def room(self) -> None:
        """Return None: Redis has its own disk and reports on it itself."""

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()

    def _trim_ids(self, model: str, born: str, through: int) -> None:
        cursor = b""
        while cursor != b"0":
            ((cursor,)) = self._write(model, scripts.TRIM_IDS, born, through, cursor or b"0", lasting=True)[1]

    def _rebuild(self, model: str, through: int, others: Mapping[int, Packed], ids: list[bytes]) -> None:
        """Replace the log with a copy, one log at a time. Raise the errors of `rebuild`."""
        steps = self._steps(model, self._born(model))
        with self._rebuilding:
            rebuild(steps, model, through, others, ids)

    def _check_division(self, whole: str, division: int) -> None:
        found = self._nodes.settle_division(whole, division)
        if found != division:
            check_processes(f"the namespace {whole}", found, division)
            raise Invalid(f"the namespace {whole} is not divided by {division} processes, but by {found}")

    def _take_over(self) -> int:
        """Get an epoch that is higher than any epoch that has written, and write it into every model."""
        highest = 0
        while True:
            _, epoch, names = self._nodes.call(scripts.OPEN, self._list, [highest + 1], lasting=True)
            self._epoch = int(epoch)
            highest = self._epoch
            for name in sorted(names):
                word, *found = self._nodes.call(
                    scripts.TAKE_OVER, self._keys(name.decode()), [self._epoch, ""], lasting=True
                )
                if word == b"fenced":  # a failover lost the last epoch in the list, but not the epoch of this model
                    highest = max(highest, int(found[0]))
                elif word == b"gone":
                    self._change_list(scripts.UNLIST, "SREM", 2, name)
            if highest == self._epoch:
                return highest

    def _change_list(self, script: Script, *command: Any) -> None:
        self._judge(None, self._nodes.call(script, self._list, [self._epoch, *command], lasting=True))

    def _keys(self, model: str) -> list[str]:
        return [f"{self._namespace}:{{{model}}}:{part}" for part in ("fence", "meta", "log", "ids", "snapshots")]

    def _call(self, model: str, script: Script, *arguments: Any, lasting: bool = False) -> tuple[str, list[Any]]:
        return self._judge(model, self._nodes.call(script, self._keys(model), arguments, lasting=lasting))

    def _write(self, model: str, script: Script, born: str, *arguments: Any, lasting: bool = False) -> Any:
        return self._call(model, script, self._epoch_of(model), born, *arguments, lasting=lasting)

    def _steps(self, model: str, born: str) -> Steps:
        """Return a function that runs steps on one model, for work that needs several steps (chunks.py,
        rebuilding.py).
        """
        return lambda script, *arguments, **how: self._write(model, script, born, *arguments, **how)

    def _judge(self, model: str | None, answer: list[Any]) -> tuple[str, list[Any]]:
        """Return the word and the values of an answer. Raise NoModel for `gone`, Fenced for `fenced`."""
        word, *rest = answer
        if word == b"gone":
            raise NoModel(model or "")
        if word == b"fenced":
            raise self._fenced(model)
        return word.decode(), rest

    def _epoch_of(self, _: str) -> int:
        """Return the epoch with which this server writes a model."""
        return self._epoch

    def _fenced(self, _: str | None) -> Fenced:
        """Return the error to raise after another server has taken over a model, or the store if the argument is None.

        Call `on_fenced` only the first time.
        """
        message = "another server has taken over the store; this server can no longer write"
        tell, self._on_fenced = self._on_fenced, None
        if tell is not None:
            tell(message)
        return Fenced(message)

    def _give_up(self, model: str) -> None:
        """Make sure that an append of unknown outcome can no longer arrive. If the append has arrived, make sure that
        it is durable.
        """
        number = self._unknown.get(model)
        if number is None:
            return
        self._write(model, scripts.GIVE_UP, "", next(self._numbers), lasting=True)
        with self._guard:
            if self._unknown.get(model) == number:
                del self._unknown[model]

    def _state(self, model: str) -> tuple[str, int, int]:
        """Return the model's unique `born`, the end of its log, and the position up to which the log is trimmed."""
        born, end, trimmed = self._nodes.ask("HMGET", self._keys(model)[1], "born", "end", "trimmed")
        if born is None:
            raise NoModel(model)
        return born.decode(), int(end), int(trimmed)

    def _born(self, model: str) -> str:
        return self._state(model)[0]

    def _read(self, model: str, born: str, after: int, end: int) -> Iterator[tuple[int, Event]]:
        while after < end:
            (entries,) = self._call(model, scripts.READ, born, after + 1, end, BATCH_BYTES, BATCH_EVENTS)[1]
            if not entries:
                yield from missing(after, end)
                return
            for position, event in unpack(after, entries):
                yield position, event
                after = position
