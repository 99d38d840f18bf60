"""A pool of candidates as the documents describe it, without optimisations."""

from collections import Counter

from hinged.service.model.events.labelling import (
    CandidatesLeased,
    CandidatesOffered,
    LeaseReleased,
    LeaseRenewed,
    LeaseSkipped,
    SkipUndone,
    VoteCast,
)
from hinged.service.model.events.learning import ExamplesLearned

POOL_MAX = 60


class PlainPool:
    """A pool that is rebuilt from a log, event by event, as the documents describe the pool. It counts the faults
    that it finds.
    """

    def __init__(self, overlap, tie_breakers=1):
        self.overlap = overlap
        self.tie_breakers = tie_breakers
        self.candidates = {}  # votes {annotator: label} by id, oldest first
        self.leases = {}  # token: [annotator, id, end, open]
        self.dropped = set()
        self.learned = {}
        self.collisions = self.twice = 0
        self.labels = []

    def holders(self, given, now):
        return {a for token, (a, i, *_) in self.leases.items() if i == given and self.held_at(token, now)}

    def held_at(self, token, now):
        *_, end, is_open = self.leases[token]
        return is_open and end > now

    def take(self, event):
        match event:
            case CandidatesOffered():
                self.candidates |= {given: {} for given in event.ids}
                new = set(event.ids)
                for given in list(self.candidates):
                    if len(self.candidates) <= POOL_MAX:
                        break
                    busy = self.candidates[given] or self.holders(given, event.at_ms)
                    if given not in new and not busy:
                        del self.candidates[given]
                        self.dropped.add(given)
            case CandidatesLeased():
                for lease in event.leases:
                    given = lease["id"]
                    others = self.holders(given, event.at_ms) - {event.annotator}
                    busy = others | set(self.candidates[given])
                    self.collisions += len(busy) >= self.most(given) or event.annotator in self.candidates[given]
                    self.leases[lease["token"]] = [event.annotator, given, lease["expires_ms"], True]
            case LeaseRenewed():
                self.leases[event.token][2] = event.expires_ms
            case LeaseReleased() | LeaseSkipped():
                self.leases[event.token][3] = False
            case SkipUndone():
                annotator, given, *_ = self.leases[event.token]
                busy = self.holders(given, event.at_ms) - {annotator} | set(self.candidates[given])
                self.collisions += len(busy) >= self.most(given) or annotator in self.candidates[given]
                self.leases[event.token][2:] = [event.expires_ms, True]
            case VoteCast():
                annotator, given, *_ = self.leases[event.token]
                self.leases[event.token][3] = False
                self.twice += annotator in self.candidates[given]
                self.candidates[given][annotator] = event.label
            case ExamplesLearned():
                for row, given in enumerate(event.ids):
                    self.learn(given, self.labels[event.classes[row]])
            case _ if event.KIND == "class_added":
                self.labels.append(event.label)

    def most(self, given):
        """Return how many annotators may work on a candidate: one more if there are enough labels but they decide
        nothing.
        """
        return max(self.overlap, len(self.candidates[given]) + 1)

    def decides(self, votes):
        """Return whether a candidate with these labels is learned, and was not learned before the last label."""
        counts = sorted(Counter(votes.values()).values(), reverse=True)
        tied = len(counts) > 1 and counts[0] == counts[1]
        most = self.overlap + self.tie_breakers
        return len(votes) == most or (self.overlap <= len(votes) < most and not tied)

    def learn(self, given, label):
        votes = self.candidates.pop(given, {})
        if self.overlap > 1 and votes:
            most = Counter(votes.values()).most_common(1)[0][0]
            self.twice += not self.decides(votes) or label != most
        self.twice += given in self.learned
        self.learned[given] = (label, votes)


def most_at_once(held):
    """Return the largest number of different annotators that relied on one candidate at the same time."""
    found = 0
    for begin, _, _ in held:
        found = max(found, len({name for b, end, name in held if b <= begin < end}))
    return found
