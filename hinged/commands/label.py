"""`hinged label`: a person in a terminal answers the model's questions."""

from __future__ import annotations

import signal
import string
import sys
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import click

from hinged.client.client import HingedError
from hinged.commands.child import SIGNALS
from hinged.commands.keyboard import Keys
from hinged.commands.options import asks, sentence
from hinged.commands.questions import STRATEGIES
from hinged.commands.showing import number, parsed_label, plain, same_label, shown_candidate, shown_label
from hinged.commands.writing import PlainConsole

if TYPE_CHECKING:
    from rich.console import Console

    from hinged.client.client import Client
    from hinged.client.shapes import Changed, Described, LearnedExample, Queries, Query

HELP = "s skip   S skip for all   n another label   u undo   ? help   q quit"
TAKEN = "snuq"
CLASS_KEYS = "123456789" + "".join(c for c in string.ascii_lowercase if c not in TAKEN)
"""The keys for the classes, in the order of the classes. The label of any further class must be typed."""


@dataclass
class SessionTally:
    """The figures of a session."""

    labelled: int = 0
    skipped: int = 0
    predicted: int = 0
    right: int = 0

    def text(self) -> str:
        """Return the figures on one line."""
        parts = [f"{self.labelled} labelled"]
        if self.skipped:
            parts.append(f"{self.skipped} skipped")
        if self.predicted:
            parts.append(f"{100 * self.right / self.predicted:.0f} % of {self.predicted} predictions right")
        return ", ".join(parts)


class Answered(NamedTuple):
    """An answer: the candidate, the label given, and the model's prediction."""

    candidate: Query
    label: Any
    prediction: Any


class SkippedCandidate(NamedTuple):
    """A candidate that was skipped."""

    candidate: Query


class Session:
    """The leases of one annotator. The session fetches leases in advance, renews them while the person thinks, and
    returns them at the end.
    """

    def __init__(
        self, client: Client, model: str, annotator: str, *, strategy: Any, lease_s: float, prefetch: int
    ) -> None:
        self.client = client
        self.model = model
        self.annotator = annotator
        self.tally = SessionTally()
        self._ask = {"annotator": annotator, "strategy": strategy, "lease_s": lease_s}
        self._lease_s = lease_s
        self._prefetch = prefetch
        self._waiting: deque[Query] = deque()
        self._held: dict[str, Query] = {}  # by lease: the waiting candidates and the current candidate
        self._done: set[str] = set()
        self._lock = threading.Lock()
        self._fetching: Future[Queries] | None = None
        self._fetcher = ThreadPoolExecutor(1, thread_name_prefix="hinged-fetch")
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._beating.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def next(self) -> Query | None:
        """Return the next candidate. Return None if there is nothing to ask."""
        if not self._waiting and self._fetching is not None:
            self._take(self._fetching.result())
            self._fetching = None
        if not self._waiting:
            self._take(self._query(1 + self._prefetch))
        if not self._waiting:
            return None
        candidate = self._waiting.popleft()
        if self._prefetch and not self._waiting:
            # The current candidate is leased too, so it is part of the answer.
            self._fetching = self._fetcher.submit(self._query, 1 + self._prefetch)
        return candidate

    def answer(self, candidate: Query, label: Any) -> LearnedExample:
        """Label a candidate. Return the result, which contains the prediction made before."""
        example = {"id": candidate["id"], "y": label, "lease": candidate["lease"]}
        result = self.client.learn(self.model, [example])["results"][0]
        self._close(candidate)
        self.tally.labelled += 1
        if result["prediction"] is not None:
            self.tally.predicted += 1
            self.tally.right += same_label(label, result["prediction"])
        return result

    def change(self, answered: Answered, label: Any) -> Changed:
        """Change the label of an answer."""
        change = self.client.change_answer(self.model, answered.candidate["id"], annotator=self.annotator, y=label)
        if answered.prediction is not None:
            self.tally.right += same_label(label, answered.prediction) - same_label(answered.label, answered.prediction)
        return change

    def skip(self, candidate: Query, whom: Literal["me", "all"]) -> None:
        """Skip a candidate."""
        self.client.skip(self.model, candidate["lease"], whom=whom)
        self._close(candidate)
        self.tally.skipped += 1

    def unskip(self, candidate: Query) -> None:
        """Undo a skip, and lease the candidate again."""
        self.client.unskip(self.model, candidate["lease"])
        with self._lock:
            self._held[candidate["lease"]] = candidate
            self._done.discard(candidate["lease"])
        self.tally.skipped -= 1

    def give_back(self, candidate: Query) -> bool:
        """Return a candidate to the pool. Return False if its lease has expired."""
        self._close(candidate)
        try:
            self.client.release(self.model, candidate["lease"])
        except HingedError as error:
            if error.code != "not_found":
                raise
            return False
        return True

    def close(self) -> int:
        """Return all leased candidates to the pool, and return their number."""
        self._ended.set()
        self._fetcher.shutdown(wait=True)
        if self._fetching is not None and self._fetching.exception() is None:
            self._take(self._fetching.result())
        self._fetching = None
        self._waiting.clear()
        with self._lock:
            held = list(self._held.values())
        return sum([self.give_back(candidate) for candidate in held])

    def _query(self, n: int) -> Queries:
        """Lease candidates. Leases of the same annotator in another terminal are not changed."""
        with self._lock:
            held = list(self._held)
        return self.client.query(self.model, n=n, held=held, **self._ask)

    def _take(self, answer: Queries) -> None:
        with self._lock:
            for candidate in answer["queries"]:
                if candidate["lease"] not in self._held and candidate["lease"] not in self._done:
                    self._held[candidate["lease"]] = candidate
                    self._waiting.append(candidate)

    def _close(self, candidate: Query) -> None:
        with self._lock:
            self._held.pop(candidate["lease"], None)
            self._done.add(candidate["lease"])

    def _beat(self) -> None:
        """Renew each lease three times before it would expire."""
        while not self._ended.wait(self._lease_s / 3):
            with self._lock:
                leases = list(self._held)
            for lease in leases:
                try:
                    self.client.heartbeat(self.model, lease, lease_s=self._lease_s)
                except (HingedError, RuntimeError):  # no such lease, no server, or the session is closed
                    continue


@click.command()
@click.argument("model")
@click.option("--annotator", required=True, metavar="NAME", help="Who you are.")
@click.option("--strategy", type=click.Choice(STRATEGIES), default="active", show_default=True, help="How to choose.")
@click.option("--lease", "lease_s", type=click.FloatRange(1), default=120, show_default=True, help="In seconds.")
@click.option(
    "--prefetch",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Candidates fetched ahead, so that you never wait; 0 chooses each candidate after the previous label.",
)
@asks
def label(client: Client, *, model: str, annotator: str, strategy: str, lease_s: float, prefetch: int) -> None:
    """Answer the model's questions, with one key for each example."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.ClickException(
            "this needs a terminal; programs take `hinged query --json` and the route POST /models/{model}/learn"
        )
    screen = PlainConsole()
    for signal_ in SIGNALS:  # also return the leases if the terminal is closed
        signal.signal(signal_, signal.default_int_handler)
    session = Session(client, model, annotator, strategy=strategy, lease_s=lease_s, prefetch=prefetch)
    with session:
        try:
            with Keys() as keys:
                Person(screen, keys, session, client.model(model)).work()
        except (KeyboardInterrupt, EOFError):
            screen.print()
        returned = session.close()
    screen.print(f"{session.tally.text()}; {returned} given back to the pool")


class Person:
    """The dialogue with a person. The dialogue shows candidates, reads keys, and prints the results."""

    def __init__(self, screen: Console, keys: Keys, session: Session, described: Described) -> None:
        self.screen = screen
        self.keys = keys
        self.session = session
        self.classes = described["classes"]
        self.declared = described["configuration"].get("classes")
        self.guide = described["configuration"].get("labels", {}).get("guide")
        self.support_vectors = described["support_vectors"]
        self.given: list[Answered | SkippedCandidate] = []

    def work(self) -> None:
        """Show the guide, then ask questions until the pool is empty or the person quits."""
        if self.guide:
            self.screen.print(plain(self.guide))
        while True:
            candidate = self.session.next()
            if candidate is None:
                pool = self.session.client.queries(self.session.model)["pool"]
                self.screen.print(f"nothing to ask: {pool['size']:,} in the pool, {pool['leased']:,} of them leased")
                return
            if not self.decide(candidate):
                return

    def decide(self, candidate: Query) -> bool:
        """Let the person label or skip a candidate. Return False if the person quits."""
        self.show(candidate)
        while True:
            key = self.keys.next()
            try:
                match key:
                    case "q":
                        return False
                    case "s" | "S":
                        self.session.skip(candidate, "me" if key == "s" else "all")
                        self.given.append(SkippedCandidate(candidate))
                        self.screen.print("skipped" if key == "s" else "skipped for all", style="yellow")
                        return True
                    case "u":
                        if not self.undo():
                            return False
                        self.show(candidate)
                    case "?":
                        self.show(candidate)
                    case _ if (label := self.label_of(key)) is not None:
                        self.learn(candidate, label)
                        return True
                    case _ if key.isprintable() and key != "n":
                        self.screen.print(f"{key!r} is not a key here; ? lists the keys", markup=False)
            except HingedError as error:
                if error.status is None:
                    raise
                self.screen.print(sentence(error), style="red", markup=False)
                self.session.give_back(candidate)
                return True

    def show(self, candidate: Query) -> None:
        """Show a candidate and the keys. The model's prediction comes after the label, so that the prediction does not
        influence the person.
        """
        self.screen.rule(plain(f"{candidate['id']}  {candidate['reason']}"), align="left")
        self.screen.print(shown_candidate(candidate))
        pairs = zip(CLASS_KEYS, self.classes, strict=False)
        self.screen.print(plain("   ".join(f"{key} {shown_label(name)}" for key, name in pairs)), style="bold cyan")
        self.screen.print(HELP, style="dim", markup=False, highlight=False)

    def undo(self) -> bool:
        """Go back to the last answer or skip. Return False if the person quits there."""
        if not self.given:
            self.screen.print("nothing to undo")
            return True
        last = self.given[-1]
        if isinstance(last, Answered):
            self.revise(last)
            return True
        self.given.pop()
        try:
            self.session.unskip(last.candidate)
        except HingedError as error:
            if error.status is None:
                raise
            self.screen.print(f"still skipped: {sentence(error)}", style="red", markup=False)
            return True
        self.screen.print("skip undone", style="yellow")
        return self.decide(last.candidate)

    def revise(self, answered: Answered) -> None:
        """Show the last answer again. A label changes the answer; any other key leaves it unchanged."""
        given = shown_label(answered.label)
        self.show(answered.candidate)
        self.screen.print(
            f"your answer was {given}: choose another label, or press any other key to keep it", markup=False
        )
        label = self.label_of(self.keys.next())
        if label is None or same_label(label, answered.label):
            self.screen.print(f"still {given}", markup=False)
            return
        try:
            anew = "job" in self.session.change(answered, label)
        except HingedError as error:
            if error.status is None:
                raise
            self.screen.print(f"still {given}: {sentence(error)}", style="red", markup=False)
            return
        more = "; the model is learning again" if anew else ""
        self.screen.print(f"changed to {shown_label(label)}{more}", style="yellow", markup=False)
        self.given[-1] = answered._replace(label=label)

    def label_of(self, key: str) -> Any:
        """Return the label of a key, or a typed label. Return None if the key has no label."""
        if key == "n":
            return self.typed()
        place = CLASS_KEYS.find(key)
        return self.classes[place] if 0 <= place < len(self.classes) else None

    def typed(self) -> Any:
        """Read a typed label. Return None if the label is invalid."""
        text = self.keys.line("label")
        if not text:
            return None
        label = parsed_label(text)
        if self.declared is not None and not any(same_label(label, known) for known in self.declared):
            names = ", ".join(map(shown_label, self.declared))
            self.screen.print(f"this model's classes are {names}", markup=False)
            return None
        return label

    def learn(self, candidate: Query, label: Any) -> None:
        """Send the label, and print its effect."""
        result = self.session.answer(candidate, label)
        self.given.append(Answered(candidate, label, result["prediction"]))
        words = plain(f"{shown_label(label)}: ")
        if result.get("collected", result.get("needed")) != result.get("needed"):
            words.append(f"label {result['collected']} of {result['needed']}; the model learns it with the last label")
        else:
            said = result["prediction"]
            if said is None:
                words.append("the model had no prediction")
            elif same_label(said, label):
                words.append(f"as the model said ({number(result['score'])})", "green")
            else:
                words.append(f"the model said {plain(shown_label(said))} ({number(result['score'])})", "red")
            now = self.session.client.predict(self.session.model, [{"x": candidate["x"]}])["results"][0]
            if now["prediction"] is not None:
                score = number(max(now["scores"].values(), default=None))
                words.append(f", now it says {plain(shown_label(now['prediction']))} ({score})")
        described = self.session.client.model(self.session.model)
        # The model learns a class with the last label of an example. Until then the labels given here are the classes.
        given = [answer.label for answer in self.given if isinstance(answer, Answered)]
        self.classes = list(described["classes"])
        for each in given:
            if not any(same_label(each, known) for known in self.classes):
                self.classes.append(each)
        change = described["support_vectors"] - self.support_vectors
        self.support_vectors = described["support_vectors"]
        self.screen.print(words)
        self.screen.print(
            f"{self.session.tally.text()}, {self.support_vectors:,} support vectors ({change:+d})",
            style="dim",
            highlight=False,
        )
