"""The checks during a run and after it. `broken` lists what was found, as sentences."""

import pickle
from collections import Counter, defaultdict
from hashlib import sha1, sha256
from json import JSONEncoder

import numpy as np

from hinged.service.model.events import decode_event
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.store.redis import claims, scripts
from tests.faults.cluster import WithoutSnapshots
from tests.helpers.states import digest_of, load_model

compact = JSONEncoder(separators=(",", ":")).encode  # made once, because json.dumps makes an encoder for each call
SIZES = {"cache_bytes": 2**20, "answers_kept": 100_000}


class Checks:
    """The checks of one run."""

    def __init__(self):
        self.broken = []
        self.claims = 0
        self.clock = lambda: 0.0
        self.schedule = sha256()
        self.compared = 0  # number of states that two processes reached at the same position
        self._states = {}
        self._writers = {}
        self._newest = defaultdict(int)
        self.positions = defaultdict(int)  # by client and model: the newest position that it knows
        self.published = {}  # by model: the newest position that an owner has published
        self.sent = defaultdict(set)
        self.acknowledged = defaultdict(set)
        self.perhaps_forgotten = defaultdict(set)
        self.forgotten = defaultdict(set)

    def say(self, what):
        """Record what is wrong."""
        self.broken.append(what)

    # -- one writer an epoch --------------------------------------------------------------------------------------

    def ran(self, sender, text, keys, args, answer):
        """Check a script that Redis has executed."""
        self.schedule.update(pickle.dumps((self.clock(), sender.name, keys[0], len(args), answer)))
        self.claims += text == CLAIM and answer[0] == b"ok"
        if text == CLAIM and answer[0] == b"ok":
            self._newest[_model_of(keys)] = int(answer[1])
        if text in OTHERS or len(keys) != 5 or answer[0] != b"ok":
            return
        model, epoch = _model_of(keys), int(args[0])
        writer = self._writers.setdefault((model, epoch), sender)
        if writer is not sender:
            self.say(f"{model}: {writer} and {sender} both write in epoch {epoch}")
        if epoch < self._newest[model]:
            self.say(f"{model}: {sender} writes in epoch {epoch} after epoch {self._newest[model]} has begun")
        self._newest[model] = max(self._newest[model], epoch)

    def crashed(self):
        """Note that Redis may have lost what was not fsynced, so a claim too."""
        self._newest.clear()

    # -- positions ------------------------------------------------------------------------------------------------

    def answered(self, client, model, kind, position):
        """Check that an answer comes from a state that follows everything that its client knows."""
        if position < self.positions[client, model]:
            known = self.positions[client, model]
            self.say(f"{model}: {client} has seen position {known}, and {kind} answers from {position}")
        self.positions[client, model] = max(position, self.positions[client, model])

    def reached(self, who, model):
        """Check that a process has the same state at a position as each other process."""
        digest = _digest(model)
        other, first = self._states.setdefault((model.name, model.position), (digest, who))
        self.compared += first is not who
        if other != digest:
            self.say(f"{model.name}: the states of {first} and {who} differ at position {model.position}")

    # -- after the run --------------------------------------------------------------------------------------------

    def judge(self, store, redis, models):
        """Check the logs, the snapshots and the bytes of the store."""
        for name in models:
            learned = Counter()
            for _, event in store.read(name, 0):
                if event.kind == ExamplesLearned.KIND:
                    learned.update(decode_event(event.kind, event.payload).ids)
            gone = self.perhaps_forgotten[name]
            for given in sorted(self.acknowledged[name] - gone - learned.keys()):
                self.say(f"{name}: {given} was acknowledged and is lost")
            for given in sorted(given for given, count in learned.items() if count > 1):
                self.say(f"{name}: {given} was learned {learned[given]} times")
            for given in sorted(learned.keys() - self.sent[name]):
                self.say(f"{name}: nobody has sent {given}")
            for given in sorted(self.forgotten[name]):
                if redis.holds(given.encode()):
                    self.say(f"{name}: {given} was forgotten, and its bytes are still there")
            newest = load_model(store, name, **SIZES)
            self.reached("the store", newest)
            if not gone:
                from_log = load_model(WithoutSnapshots(store), name, **SIZES)
                if _digest(newest) != _digest(from_log) and digest_of(newest) != digest_of(from_log):
                    self.say(f"{name}: the snapshot and the log give different states")


def _digest(model):
    """Return a hash of a model's whole state. A hash of its snapshot takes three times as long."""
    facts, arrays = model.contents()
    digest = sha1(compact([facts, *arrays]).encode(), usedforsecurity=False)
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array))
    return digest.digest()


def _model_of(keys):
    return keys[0].partition(b"{")[2].partition(b"}")[0].decode()


CLAIM = claims.CLAIM.text.encode()
OTHERS = {script.text.encode() for script in (claims.CLAIM, claims.OWNER, scripts.READ, scripts.FIND)}
"""Scripts with the keys of a model that do not write as its owner."""
