"""A store on Redis that several servers share. Each server writes the models that it has claimed.

Each model has its own epoch, which fences writers. To claim a model, a server passes the epoch that it found and gets a
higher epoch. If several servers claim a model at once, only one succeeds. Every write to the model contains the
writer's epoch and is refused if the model has a higher epoch. So a server that was suspended while another server
claimed its models can write to none of them.

A server that opens the whole store for itself (store.py) fences all sharing servers. If servers share the store again
later, the first of them fences that server.

Servers report regularly that they are alive and which models they own (`beat`). Other servers use these reports only to
find the server to ask.
"""

from __future__ import annotations

from contextlib import suppress
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Event, Fenced
from hinged.service.store.redis import claims
from hinged.service.store.redis.store import RedisStore
from hinged.service.store.shares import Beat, OwnedElsewhere, Owner, Sign

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECRET_BYTES = 32  # random bytes of the secret that all servers on the store share


class SharedRedisStore(RedisStore):
    """The store of one of several servers.

    address: where the other servers reach this server. ttl_s: seconds without a heartbeat after which a server
    counts as dead. on_lost: called, from any thread, with the name of each model that another server has claimed.
    """

    def __init__(
        self, url: str, *, address: str, ttl_s: float, on_lost: Callable[[str], None] | None = None, **options: Any
    ) -> None:
        self._address = address
        self._ttl_ms = int(1000 * ttl_s)
        self.on_lost = on_lost or (lambda _: None)
        self._run = uuid4().hex
        self._expires_ms = 0  # when the last answered heartbeat expires, by Redis's clock
        self._epochs: dict[str, int] = {}  # epochs of the models that this server owns
        self._claiming = Lock()  # guards _epochs
        namespace = options.get("namespace", "hinged")
        self._secret = f"{namespace}:{{-}}:secret"
        parts = ("epoch", "models", "nodes", "owners", "joined", "changes")
        self._shared = [f"{namespace}:{{-}}:{part}" for part in parts]
        super().__init__(url, **options)
        self._owner = address

    # -- this server's models -------------------------------------------------------------------------------------

    def models(self) -> list[str]:
        """Return the models that this server owns."""
        with self._claiming:
            held = sorted(self._epochs)
        return [name for name in held if self._nodes.ask("HGET", self._keys(name)[1], "born")]

    def epoch(self, model: str) -> int | None:
        """Return the epoch with which this server writes a model; None if it does not write the model."""
        return self._epochs.get(model)

    def epochs(self) -> dict[str, int]:
        """Return the epochs with which this server writes its models."""
        with self._claiming:
            return dict(self._epochs)

    def create(self, model: str, first: Event) -> None:
        """Claim the name, then begin the log. Raise OwnedElsewhere if another server was first."""
        if model not in self._epochs:
            found = self.owner(model)
            if found.exists or not self._claim(model, found.epoch):
                raise OwnedElsewhere(f"another server has model {model} or is creating it; try again")
        super().create(model, first)
        self.report(model, self._epochs.get(model, 0), self._address)

    def delete(self, model: str) -> None:
        """Delete the model, then give up the claim."""
        super().delete(model)
        with self._claiming:
            epoch = self._epochs.pop(model, 0)
        self.report(model, epoch, "")

    def secret(self) -> bytes:
        """Return the secret that all servers on this store share. The first server that asks generates it."""
        _, found = self._nodes.call(claims.SECRET, [self._secret], [token_hex(SECRET_BYTES)])
        return bytes.fromhex(found.decode())

    # -- claims ---------------------------------------------------------------------------------------------------

    def owner(self, model: str) -> Owner:
        """Return the owner of a model."""
        epoch, address, exists, end = self._call(model, claims.OWNER)[1]
        return Owner(address.decode(), epoch.decode(), bool(exists), int(end))

    def owners(self, models: Sequence[str]) -> dict[str, Owner]:
        """Return the owners of many models."""
        asked = [
            command
            for fence, meta, *_ in map(self._keys, models)
            for command in (("HMGET", meta, "owner", "born", "end"), ("GET", fence))
        ]
        answers = iter(self._nodes.ask_all(asked))
        found = {}
        for model, (address, born, end), epoch in zip(models, answers, answers, strict=True):
            found[model] = Owner((address or b"").decode(), (epoch or b"").decode(), born is not None, int(end or 0))
        return found

    def claim(self, model: str, epoch: str) -> bool:
        """Become the writer of a model whose epoch the caller found to be `epoch`; return false if the epoch has
        changed.
        """
        if not self._claim(model, epoch):
            return False
        self.report(model, self._epochs[model], self._address)
        return True

    def release(self, model: str, to: str) -> None:
        """Stop writing a model, so that the server at `to` can claim it."""
        self._write(model, claims.RELEASE, self._born(model), to, lasting=True)
        with self._claiming:
            epoch = self._epochs.pop(model)
        self.report(model, epoch + 1, to)

    def report(self, model: str, epoch: int, owner: str) -> None:
        """Report a model's owner to all servers. If the report is lost, the next server that tries to claim the model
        repeats it.
        """
        with suppress(StoreUnavailable):
            self._judge(None, self._nodes.call(claims.SAY, self._shared, [self._epoch, model, epoch, owner]))

    def let_go(self, model: str) -> None:
        """Treat a model as claimed by another server."""
        with self._claiming:
            self._epochs.pop(model, None)

    # -- life signs -----------------------------------------------------------------------------------------------

    def beat(self, figures: str, since: int = 0) -> Beat:
        """Send a heartbeat; return the other servers, and the owners of models.

        since: `mark` of an earlier answer. The new answer then contains only later changes, if Redis still has them and
        the last answered heartbeat.
        Raise Fenced if another server has taken over the store.
        """
        arguments = [self._epoch, self._address, self._run, self._ttl_ms, figures, since, self._expires_ms]
        word, *found = self._nodes.call(claims.BEAT, self._shared, arguments)
        if word == b"replaced":
            raise self._ended(f"another server runs under the address {self._address}")
        now, mark, whole, nodes, owners, models, *changed = self._judge(None, [word, *found])[1]
        self._expires_ms = int(now) + self._ttl_ms
        return Beat(
            _living(int(now), self._ttl_ms, nodes),
            _owners(owners),
            frozenset(name.decode() for name in models),
            None if whole else frozenset(name.decode() for name in changed[0]),
            int(mark),
        )

    def close(self) -> None:
        """Report that this server leaves, and close the connections."""
        with suppress(StoreUnavailable):  # the heartbeat expires
            self._nodes.call(claims.LEAVE, self._shared, [self._epoch, self._address, self._run])
        super().close()

    # -- differences from the store of a single writer ------------------------------------------------------------

    def _take_over(self) -> int:
        arguments = [0, self._address, self._run, self._ttl_ms, "{}"]
        return int(self._nodes.call(claims.JOIN, self._shared, arguments, lasting=True)[1])

    def _epoch_of(self, model: str) -> int:
        return self._epochs.get(model, 0)

    def _fenced(self, model: str | None) -> Fenced:
        if model is None:
            return super()._fenced(None)
        with self._claiming:
            self._epochs.pop(model, None)
        self.on_lost(model)
        return Fenced(f"another server has claimed model {model}; ask again")

    def _ended(self, message: str) -> Fenced:
        tell, self._on_fenced = self._on_fenced, None
        if tell is not None:
            tell(message)
        return Fenced(message)

    def _claim(self, model: str, epoch: str) -> bool:
        arguments = [epoch, "", self._address]
        word, *found = self._nodes.call(claims.CLAIM, self._keys(model), arguments, lasting=True)
        if word != b"ok":
            return False
        with self._claiming:
            self._epochs[model] = int(found[0])
        with self._guard:
            self._unknown.pop(model, None)  # an append with an earlier epoch is refused
        return True


def _living(now_ms: int, ttl_ms: int, nodes: list[bytes]) -> dict[str, Sign]:
    """Return the servers. ttl_ms: time for which a heartbeat is valid, the same for all servers."""
    found = {}
    for address, said in zip(nodes[::2], nodes[1::2], strict=True):
        expires_ms, _, figures = said.decode().split(" ", 2)
        age_s = max(0, now_ms + ttl_ms - int(expires_ms)) / 1000
        found[address.decode()] = Sign(int(expires_ms) > now_ms, age_s, figures)
    return found


def _owners(owners: list[bytes]) -> dict[str, tuple[int, str]]:
    found = {}
    for model, said in zip(owners[::2], owners[1::2], strict=True):
        epoch, _, address = said.decode().partition(" ")
        found[model.decode()] = (int(epoch), address)
    return found
