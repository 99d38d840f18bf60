"""`hinged consume`: learn and predict the messages of a broker.

The consumer acknowledges a message to the broker after the server has acknowledged its example. So the broker delivers
each message at least once. The place of a message is the id of its example, and the server learns an id once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import httpx

from hinged.client.client import Client, HingedError
from hinged.client.exchange import RETRIED_STATUSES, backoff_s
from hinged.commands.broker import Broker, BrokerError, Message
from hinged.commands.brokers import broker_of
from hinged.commands.messages import Fields, dead_letter, reader
from hinged.commands.options import FILE, asks, sentence
from hinged.commands.rows import PlacedExample, sent
from hinged.commands.writing import write
from hinged.readers import STOP, BadRows, Place, UnreadableRow

T = TypeVar("T")
Send = Callable[[list[dict[str, Any]]], list[Any]]

SPLIT = frozenset({httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE, httpx.codes.UNPROCESSABLE_ENTITY})
"""Statuses that may be the fault of one example among several, even if the answer does not name the example."""
COUNTS = ("learned", "known already", "predicted", "forgotten before", "to the dead letters")
IDLE_POLL_S = 0.1
CONNECT_S = 10.0
"""Seconds for a connection to a broker. A client of NATS would try for minutes without a word."""


class Stopped(Exception):
    """The consumer is asked to stop, and gives up the batch that no server has acknowledged."""


class RefusedMessages(BadRows):
    """Collects the messages that cannot be read or that the server refuses. A forgotten example is no such message,
    because a dead letter would keep what somebody wanted to erase.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self.reasons: dict[Place, str] = {}

    def take(self, error: UnreadableRow) -> None:
        """Collect a message."""
        cause = error.__cause__
        if isinstance(cause, HingedError) and cause.status == httpx.codes.GONE:
            self._counts["forgotten before"] += 1
        else:
            self.reasons[error.place] = error.reason


class MessageSender:
    """Sends the messages of a batch to the server, in order and again until the server answers.

    Parameters
    ----------
    read : returns the example of a message.

    Attributes
    ----------
    counts : counts of all batches.
    stop : set if nobody waits for an answer any more.
    """

    def __init__(self, client: Client, model: str, read: Callable[[Message], dict[str, Any]]) -> None:
        self._client, self._model, self._read = client, model, read
        self.counts: Counter[str] = Counter()
        self.stop = threading.Event()
        self._position: int | None = None

    def send(self, messages: Sequence[Message], bad_rows: BadRows) -> list[dict[str, Any]]:
        """Learn or predict each message. Return the predictions."""
        examples: list[PlacedExample] = []
        for message in messages:
            try:
                examples.append(PlacedExample(message.place, self._read(message)))
            except UnreadableRow as error:
                bad_rows.take(error)
        predictions: list[dict[str, Any]] = []
        for labelled, several in itertools.groupby(examples, key=lambda placed: "y" in placed.example):
            results = self._send(self._learn if labelled else self._predict, list(several), bad_rows)
            for result in results:
                known = "known already" if result.get("duplicate") else "learned"
                self.counts[known if labelled else "predicted"] += 1
            predictions += [] if labelled else results
        return predictions

    def _learn(self, examples: list[dict[str, Any]]) -> list[Any]:
        answer = self._client.learn(self._model, examples)
        self._position = answer["position"]
        return list(answer["results"])

    def _predict(self, examples: list[dict[str, Any]]) -> list[Any]:
        # The prediction takes account of all labels before it.
        return list(self._client.predict(self._model, examples, min_position=self._position)["results"])

    def _send(self, ask: Send, several: Sequence[PlacedExample], bad_rows: BadRows) -> list[Any]:
        try:
            found = sent(lambda examples: self._answered(lambda: ask(examples)), several, bad_rows)
            return [result for _, results in found for result in results]
        except HingedError as error:
            if error.status not in SPLIT:
                raise
            if len(several) > 1:
                half = len(several) // 2
                return [r for part in (several[:half], several[half:]) for r in self._send(ask, part, bad_rows)]
            ((place, example),) = several
            if place is None:
                raise
            bad_rows.take(UnreadableRow(place, sentence(error), row=example))
            return []

    def _answered(self, ask: Callable[[], T]) -> T:
        """Return the server's answer, however long it takes. Raise a refusal."""
        for attempt in itertools.count(1):
            try:
                return ask()
            except HingedError as error:
                if error.status is not None and error.status not in RETRIED_STATUSES | {500}:
                    raise
                write(f"{sentence(error)}; the same messages are sent again", err=True)
                if self.stop.wait(backoff_s(attempt)):
                    raise Stopped from error
        raise AssertionError


class Consumer:
    """Takes batches from a broker until it is stopped.

    Parameters
    ----------
    predictions, dead_letters : functions that publish such a message, or None.
    """

    def __init__(
        self,
        sender: MessageSender,
        predictions: Callable[[bytes], Any] | None,
        dead_letters: Callable[[bytes], Any] | None,
    ) -> None:
        self._sender, self._predictions, self._dead_letters = sender, predictions, dead_letters
        self.ended = asyncio.Event()
        self.error: Exception | None = None
        self._busy = False
        self.last_s = time.monotonic()

    async def take(self, messages: Sequence[Message]) -> bool:
        """Process messages. Return whether the broker may forget them."""
        if self.ended.is_set():
            return False
        self._busy = True
        try:
            await self._process(messages)
        except Stopped:
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, no message may be acknowledged
            self.end(error)
            return False
        finally:
            self._busy, self.last_s = False, time.monotonic()
        return True

    def idle_for(self, seconds: float | None) -> bool:
        """Return whether no message has come for this many seconds."""
        return seconds is not None and not self._busy and time.monotonic() - self.last_s >= seconds

    def end(self, error: Exception | None = None) -> None:
        """Stop: the batch in work is finished if the server answers."""
        self.error = self.error or error
        self._sender.stop.set()
        self.ended.set()

    async def _process(self, messages: Sequence[Message]) -> None:
        refused = RefusedMessages(self._sender.counts)
        bad_rows = STOP if self._dead_letters is None else refused
        predictions = await asyncio.to_thread(self._sender.send, messages, bad_rows)
        if self._predictions is not None:
            for prediction in predictions:
                await self._predictions(json.dumps(prediction, ensure_ascii=False).encode())
        for message in messages:
            if message.place in refused.reasons and self._dead_letters is not None:
                await self._dead_letters(dead_letter(message, refused.reasons[message.place]))
                self._sender.counts["to the dead letters"] += 1


@click.command(epilog="Example: hinged consume spam --from redis://127.0.0.1:6379/mails --to spam-predictions")
@click.argument("model")
@click.option(
    "--from",
    "source",
    metavar="URL",
    required=True,
    help="Topic to read: kafka, nats, redis, amqp or mqtt://HOST:PORT/TOPIC. $NAME stands for an environment variable.",
)
@click.option("--to", "predictions", metavar="TOPIC|URL", help="Publish the predictions of messages without a label.")
@click.option(
    "--dead-letter",
    "dead_letters",
    metavar="TOPIC|URL",
    help="Publish messages that cannot be learned, each with its reason. Without this option, such a message stops.",
)
@click.option("--label", metavar="FIELD", help="Field of the label, in messages that are rows of fields.")
@click.option("--id", "id_name", metavar="FIELD", help="Field of the id.  [id, or else the place of the message]")
@click.option("--features", multiple=True, metavar="FIELD", help="Use only these features. May be given several times.")
@click.option("--drop", multiple=True, metavar="FIELD", help="Leave a field out. May be given several times.")
@click.option("--schema", type=FILE, help="Schema of messages in Avro.  [messages are JSON]")
@click.option("--confluent", is_flag=True, help="Skip Confluent's header before the Avro: a zero byte and a schema id.")
@click.option("--group", metavar="NAME", help="Name by which the broker knows this consumer.  [hinged-MODEL]")
@click.option("--batch", type=click.IntRange(1), default=100, show_default=True, help="Most messages of a request.")
@click.option("--idle", type=click.FloatRange(0), metavar="SECONDS", help="Stop when no message came for this long.")
@asks
def consume(
    client: Client,
    *,
    model: str,
    source: str,
    predictions: str | None,
    dead_letters: str | None,
    label: str | None,
    id_name: str | None,
    features: tuple[str, ...],
    drop: tuple[str, ...],
    schema: Path | None,
    confluent: bool,
    group: str | None,
    batch: int,
    idle: float | None,
) -> None:
    """Learn the messages of a broker, and predict those without a label, until SIGINT or SIGTERM.

    A message is {"id": ..., "x": ..., "y": ...}, or with --label, --features or --drop an object of fields. The
    command acknowledges a message after the server has learned it, and the server learns an id once. So each message
    counts once, even after kill -9.
    """
    type_ = client.model(model)["configuration"]["features"]["type"]
    kind = type_ if label or features or drop else None
    if kind in ("dense", "sparse") and not features:
        raise click.UsageError(f"the model {model} learns from {kind} rows: --features names their columns, in order")
    if confluent and schema is None:
        raise click.UsageError("--confluent needs --schema FILE")
    read = reader(Fields(id_name, label, features, drop, kind), schema, confluent=confluent)
    sender = MessageSender(client, model, read)
    topics = Topics(source, predictions, dead_letters, group or f"hinged-{model}", batch)
    try:
        asyncio.run(run(sender, topics, idle))
    except BrokerError as error:
        raise click.ClickException(str(error)) from error
    finally:
        counted = [f"{sender.counts[name]:,} {name}" for name in COUNTS if sender.counts[name]]
        if counted:
            write(f"{model}: {', '.join(counted)}")


class Topics(NamedTuple):
    """Where messages come from and go to: the options --from, --to, --dead-letter, --group and --batch."""

    source: str
    predictions: str | None
    dead_letters: str | None
    group: str
    batch: int


@contextlib.contextmanager
def as_broker_errors(problem: str) -> Iterator[None]:
    """Turn each error into one sentence."""
    try:
        yield
    except BrokerError:
        raise
    except Exception as error:
        raise BrokerError(f"{problem}: {str(error) or 'no answer in time'}") from error


async def run(sender: MessageSender, topics: Topics, idle: float | None) -> None:
    """Consume until a signal, an error, or `idle` seconds without a message."""
    async with AsyncExitStack() as opened:

        async def connected(url: str) -> tuple[Broker, str]:
            broker, topic = broker_of(url, topics.group, topics.batch)
            opened.push_async_callback(broker.close)
            with as_broker_errors(f"no connection to the broker of {topic}"):
                async with asyncio.timeout(CONNECT_S):
                    await broker.open()
            return broker, topic

        async def publisher(target: str | None) -> Callable[[bytes], Any] | None:
            if target is None:
                return None
            to, name = await connected(target) if "://" in target else (broker, target)

            async def publish(body: bytes) -> None:
                with as_broker_errors(f"the broker does not take a message for {name}"):
                    await to.publish(name, body)

            return publish

        broker, topic = await connected(topics.source)
        outputs = (await publisher(topics.predictions), await publisher(topics.dead_letters))
        consumer = Consumer(sender, *outputs)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, consumer.end)
        write(f"reading {topic}; Ctrl-C stops", err=True)
        with as_broker_errors(f"the broker does not deliver {topic}"):
            await broker.start(topic, consumer.take)
        consumer.last_s = time.monotonic()
        while not consumer.ended.is_set() and not consumer.idle_for(idle):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(consumer.ended.wait(), IDLE_POLL_S if idle is not None else None)
    if consumer.error is not None:
        raise consumer.error
