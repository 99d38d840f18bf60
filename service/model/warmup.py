"""The warm-up of a learner. The warm-up finds the learner's columns, their scales, and gamma.

The warm-up observes the first examples. If the configuration says so, it also observes candidates without labels when
they are offered. The warm-up does not observe a candidate again when the candidate's label comes. When the warm-up has
observed enough, the learner starts over with the new columns. The learner learns the labelled examples again, in their
original order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hinged.frames import part, prefixed
from hinged.service.data.features.observing import Encoder
from hinged.service.data.features.spread import Spread
from hinged.service.data.inputs import Inputs
from hinged.service.data.part import AUTO
from hinged.service.data.parts import Configuration
from hinged.solvers.core.states import BOUND_MAX, COUNT_MAX, StateReader
from hinged.solvers.estimators.scaling import CSR

Array = np.ndarray[Any, Any]

NO_CLASS, NO_KEY = -1, 0  # class and key of a candidate


class WarmUp:
    """An encoder, and the examples that it has observed.

    classes: (n,) int32, keys: (n,) int64, and ids of the observed examples. A candidate has NO_CLASS and NO_KEY, and
    only candidates have ids.
    weights: (n,) float64, the examples' own factors of C.
    candidates: the number of all candidates ever observed.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.encoder: Encoder[Any, Any] | None = configuration.features.encoder(configuration)
        self.candidates = 0
        self._takes_candidates = configuration.features.warmup_candidates
        self._begin()

    def _begin(self) -> None:
        self.classes, self.keys, self.weights = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0)
        self.ids: list[str | None] = []
        self._find_places()

    @property
    def active(self) -> bool:
        """Return whether the warm-up is still going on."""
        return self.encoder is not None and self.encoder.warming

    @property
    def begun(self) -> bool:
        """Return whether the encoder can already distinguish between different x."""
        return self.encoder is None or not self.encoder.warming or len(self.encoder) > 0

    @property
    def learned(self) -> Array:
        """Return the indices of the labelled examples among the observed examples, in the order of learning."""
        places = np.flatnonzero(self.keys != NO_KEY)
        return places[np.argsort(self.keys[places], kind="stable")]

    @property
    def labelled(self) -> int:
        """Return how many of the observed examples have a label."""
        return int(np.count_nonzero(self.keys))

    @property
    def until_freeze(self) -> int:
        """Return the number of examples until `freeze` is due, 0 if the warm-up is over."""
        return self.encoder.until_freeze if self.encoder is not None else 0

    # -- observing ------------------------------------------------------------------------------------------------

    def observe(
        self, inputs: Inputs, classes: Array, keys: Array, ids: Sequence[str | None], weights: Array | None = None
    ) -> bool:
        """Observe the next learned examples, at most `until_freeze`. Return whether `freeze` is due."""
        items, new = self._encoder.items(inputs), []
        weights = np.ones(keys.size) if weights is None else weights
        for r, given in enumerate(ids):
            place = self._places.pop(given, None) if given is not None else None
            if place is None:
                new.append(r)
            else:
                self._encoder.observed[place] = items[r]
                self.classes[place], self.keys[place], self.ids[place] = classes[r], keys[r], None
                self.weights[place] = weights[r]
        return self._take([items[r] for r in new], classes[new], keys[new], [None] * len(new), weights[new])

    def offer(self, inputs: Inputs, ids: Sequence[str], begin: Callable[[], None]) -> None:
        """Observe candidates while the warm-up is active. Call `begin` whenever `freeze` is due."""
        if not (self._takes_candidates and self.active):
            return
        new = [r for r, given in enumerate(ids) if given not in self._places][: self._encoder.left]
        items, waiting = self._encoder.items(inputs.take(np.array(new, np.int64))), [ids[r] for r in new]
        while items and self.active:
            m = min(self.until_freeze, len(items))
            self.candidates += m
            classes, keys = np.full(m, NO_CLASS, np.int32), np.full(m, NO_KEY, np.int64)
            due = self._take(items[:m], classes, keys, waiting[:m], np.ones(m))
            items, waiting = items[m:], waiting[m:]
            if due:
                begin()

    def _take(self, items: list[Any], classes: Array, keys: Array, ids: Sequence[str | None], weights: Array) -> bool:
        if not items:
            return False
        self.classes, self.keys = np.concatenate((self.classes, classes)), np.concatenate((self.keys, keys))
        self.weights = np.concatenate((self.weights, weights))
        self._places |= {given: len(self.ids) + r for r, given in enumerate(ids) if given is not None}
        self.ids += ids
        return self._encoder.observe(items)

    def leave_out(self, places: Array) -> None:
        """Forget the observed examples with these indices."""
        kept = np.setdiff1d(np.arange(len(self.ids)), places)
        self._encoder.observed = [self._encoder.observed[r] for r in kept]
        self.classes, self.keys, self.weights = self.classes[kept], self.keys[kept], self.weights[kept]
        self.ids = [self.ids[r] for r in kept]
        self._find_places()

    def _find_places(self) -> None:
        """Index the candidates that still wait for their labels."""
        self._places = {given: place for place, given in enumerate(self.ids) if given is not None}

    def freeze(self) -> tuple[CSR, Array, Array, Array, Array | None]:
        """Fix the columns. Return the observed examples as rows, and the indices, classes, keys and weights of the
        learned examples among them. The weights are None if each is 1.
        """
        learned = self.learned
        csr = self._encoder.freeze()
        weights = self.weights[learned]
        own = None if (weights == 1.0).all() else weights
        found = csr, learned, self.classes[learned], self.keys[learned], own
        if not self.active:
            self._begin()
        return found

    @property
    def _encoder(self) -> Encoder[Any, Any]:
        assert self.encoder is not None  # noqa: S101  without an encoder nothing is observed
        return self.encoder

    # -- what was found -------------------------------------------------------------------------------------------

    def gamma(self, configuration: Configuration) -> float:
        """Return the number to use for gamma "auto" or "scale". The number is 1 if nothing was found."""
        if self.encoder is None:
            return 1.0
        shown = self.encoder.spread.gamma(configuration.kernel.type, former=configuration.gamma == AUTO)
        return min(shown, configuration.gamma_max)

    def gammas(self, configuration: Configuration) -> set[float]:
        """Return the valid values of a learner's gamma: the found value, or 1 if nothing was found yet."""
        shown = self.gamma(configuration)
        return {shown, 1.0} if self.encoder is None or self.encoder.spread == Spread(0.0, 0.0, 0.0) else {shown}

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""
        facts: dict[str, Any] = {}
        arrays: dict[str, Array] = {"warm_classes": self.classes, "warm_keys": self.keys}
        if self.encoder is None:
            return facts, arrays
        if (self.weights != 1.0).any():
            arrays["warm_weights"] = self.weights
        name = self.encoder.NAME
        facts[name], parts = self.encoder.state()
        if self.candidates:
            facts["warm_ids"], facts["warm_candidates"] = self.ids, self.candidates
        return facts, arrays | prefixed(f"{name}.", parts)

    def load(self, facts: dict[str, Any], arrays: dict[str, Array], classes: int) -> None:
        """Restore the warm-up from a result of `state`, for this number of classes. Raise ValueError if it is
        inconsistent.
        """
        observed = 0
        if self.encoder is not None:
            self.encoder.load(facts[self.encoder.NAME], part(arrays, f"{self.encoder.NAME}."))
            observed = len(self.encoder.observed)
        self.candidates = facts.get("warm_candidates", 0)
        self.ids = list(facts.get("warm_ids", [None] * observed))
        read = StateReader(arrays)
        self.classes = read.take("warm_classes", np.int32, (observed,), NO_CLASS, classes - 1)
        self.keys = read.take("warm_keys", np.int64, (observed,), NO_KEY, COUNT_MAX)
        self.weights = np.ones(observed)
        if "warm_weights" in arrays:
            self.weights = read.take("warm_weights", np.float64, (observed,), 0.0, BOUND_MAX)
        waits = [given is not None for given in self.ids]
        if len(self.ids) != observed or not ((self.keys == NO_KEY) == waits).all():
            raise ValueError("observed candidates must have ids and no keys, and other examples the reverse")
        if not ((self.classes == NO_CLASS) == waits).all():
            raise ValueError("observed candidates must have no class, and other examples must have one")
        held = self.keys[self.keys != NO_KEY]
        if np.unique(held).size < held.size or len({given for given in self.ids if given is not None}) < sum(waits):
            raise ValueError("an example is listed twice")
        self._find_places()
        if sum(waits) > self.candidates:
            raise ValueError(f"the state has observed {self.candidates} candidates, but holds {sum(waits)}")
