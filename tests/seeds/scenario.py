"""A scenario: the operations of the clients, and the faults. Each seed gives one scenario."""

import random
from dataclasses import dataclass, replace

NODES = ("n0", "n1", "n2")
CLIENTS = ("c0", "c1", "c2")
MODELS = ("m0", "m1")
LASTS_S = 8.0  # duration of the faults
OPERATIONS = {
    "learn": 50, "predict": 20, "forget": 5, "correct": 5, "move": 6, "challenge": 4, "promote": 4, "balance": 2,
    "snapshot": 2,
}  # fmt: skip
FAULTS = {
    "kill": 5, "stop": 2, "pause": 5, "cut": 4, "cut_redis": 5, "cut_client": 1, "slow": 3, "crash_redis": 3,
    "jump": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """An operation of a client. pause_s: time that the client waits before it."""

    client: str
    kind: str
    model: str
    pause_s: float
    size: int = 1


@dataclass(frozen=True)
class Fault:
    """A fault. way: "to", "from" or "both", for a cut."""

    at_s: float
    kind: str
    who: str
    other: str
    lasts_s: float
    way: str = "both"


@dataclass(frozen=True)
class Scenario:
    """The seed of the schedule, the operations in order, and the faults."""

    seed: int
    operations: tuple[Operation, ...]
    faults: tuple[Fault, ...]

    @classmethod
    def of(cls, seed):
        """Return the scenario of a seed."""
        rng = random.Random(f"scenario {seed}")
        operations = tuple(
            Operation(client, _drawn(rng, OPERATIONS), rng.choice(MODELS), rng.expovariate(2.0), rng.randint(1, 3))
            for client in CLIENTS
            for _ in range(rng.randint(5, 11))
        )
        faults = tuple(
            Fault(
                rng.uniform(1.0, LASTS_S), _drawn(rng, FAULTS), *rng.sample(NODES, 2),
                rng.choice([0.1, 0.5, 1.5, 3.0]) * rng.uniform(0.5, 1.5), rng.choice(["to", "from", "both", "both"]),
            )
            for _ in range(rng.randint(2, 8))
        )  # fmt: skip
        return cls(seed, operations, tuple(sorted(faults, key=lambda fault: fault.at_s)))

    def shrunk(self, fails):
        """Return the smallest scenario found that still fails: faults and operations are left out, at first many at
        once.
        """
        found = self
        for name in ("faults", "operations", "faults"):
            size = len(getattr(found, name))
            while size:
                start = 0
                while start < len(parts := getattr(found, name)):
                    smaller = replace(found, **{name: parts[:start] + parts[start + size :]})
                    if fails(smaller):
                        found = smaller
                    else:
                        start += size
                size //= 2
        return found


def _drawn(rng, weights):
    return rng.choices([*weights], [*weights.values()])[0]
