"""`hinged consume`: learn and predict the messages of a broker.

The consumer acknowledges a message to the broker after the server has acknowledged its example. So the broker delivers
each message at least once. The place of a message is the id of its example, and the server learns an id once.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import io
import itertools
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import httpx

from hinged.client.client import Client, HingedError
from hinged.client.exchange import RETRIED_STATUSES, backoff_s
from hinged.commands.brokers import Broker, BrokerError, Message, broker_of
from hinged.commands.options import FILE, asks, sentence
from hinged.commands.rows import PlacedExample, sent
from hinged.commands.writing import write
from hinged.extras import needed
from hinged.readers import STOP, BadRows, Place, UnreadableRow

T = TypeVar("T")
Send = Callable[[list[dict[str, Any]]], list[Any]]

SPLIT = frozenset({httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE, httpx.codes.UNPROCESSABLE_ENTITY})
"""Statuses that may be the fault of one example among several, even if the answer does not name the example."""
COUNTS = ("learned", "known already", "predicted", "forgotten before", "to the dead letters")
IDLE_POLL_S = 0.1
CONFLUENT_BYTES = 5
"""Length of Confluent's header before a message in Avro: a zero byte, and the id of the schema."""


class Stopped(Exception):
    """The consumer is asked to stop, and gives up the batch that no server has acknowledged."""


class Fields:
    """The fields of a message that are the id, the label and the features of its example.

    Parameters
    ----------
    id : field of the id. None: the field `id`, or else the place of the message.
    label : field of the label. A message without a label is predicted.
    features : fields of x. Empty: all other fields except `drop`.
    kind : kind of the model's features, None if messages have the form that the server takes.
    """

    def __init__(
        self, id: str | None, label: str | None, features: Sequence[str], drop: Sequence[str], kind: str | None  # noqa: A002
    ) -> None:  # fmt: skip
        self._id, self._label, self._features, self._kind = id or "id", label, features, kind
        self._out = {self._id, label, *drop}
        self._needs_id = id is not None

    def example(self, message: Message, value: Any) -> dict[str, Any]:
        """Return the example of a message. Raise UnreadableRow if the message has no id or another form."""
        if not isinstance(value, dict):
            raise UnreadableRow(message.place, f"expected an object, found {str(value)[:60]}")
        given = value.get(self._id)
        if given in (None, ""):
            if self._needs_id or message.id is None:
                raise UnreadableRow(message.place, "the id is missing, and --id NAME names its field", column=self._id)
            given = message.id
        given = given if isinstance(given, str) else json.dumps(given)
        if self._kind is None:
            return {
                **{name: part for name, part in value.items() if name != self._id and part is not None},
                "id": given,
            }
        label = None if self._label is None else value.get(self._label)
        return {"id": given, "x": self._x(message, value), **({} if label is None else {"y": label})}

    def _x(self, message: Message, value: Mapping[str, Any]) -> Any:
        names = self._features or [name for name in value if name not in self._out]
        if self._kind == "named":
            return {name: value[name] for name in names if value.get(name) is not None}
        values = [value.get(name) for name in names]
        if self._kind == "text":
            if len(values) != 1:
                raise UnreadableRow(
                    message.place, f"the model learns from one text, found the fields {', '.join(names)}"
                )
            return values[0]
        return values


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
    stop : set if nobody waits for an answer any more.
    counts : counts of all batches.
    """

    def __init__(
        self, client: Client, model: str, read: Callable[[Message], dict[str, Any]], stop: threading.Event,
        counts: Counter[str],
    ) -> None:  # fmt: skip
        self._client, self._model, self._read = client, model, read
        self._stop, self._counts = stop, counts
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
                self._counts[known if labelled else "predicted"] += 1
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
            return sent(lambda examples: self._answered(lambda: ask(examples)), several, bad_rows)[1]
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
                if self._stop.wait(backoff_s(attempt)):
                    raise Stopped from error
        raise AssertionError


class Consumer:
    """Takes batches from a broker until it is stopped.

    Parameters
    ----------
    predictions, dead_letters : functions that publish such a message, or None.
    """

    def __init__(
        self, batch: MessageSender, counts: Counter[str], stop: threading.Event,
        predictions: Callable[[bytes], Any] | None, dead_letters: Callable[[bytes], Any] | None,
    ) -> None:  # fmt: skip
        self._batch, self._counts, self._stop = batch, counts, stop
        self._predictions, self._dead_letters = predictions, dead_letters
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
        self._stop.set()
        self.ended.set()

    async def _process(self, messages: Sequence[Message]) -> None:
        refused = RefusedMessages(self._counts)
        bad_rows = STOP if self._dead_letters is None else refused
        predictions = await asyncio.to_thread(self._batch.send, messages, bad_rows)
        if self._predictions is not None:
            for prediction in predictions:
                await self._predictions(json.dumps(prediction, ensure_ascii=False).encode())
        for message in messages:
            if message.place in refused.reasons and self._dead_letters is not None:
                await self._dead_letters(dead_letter(message, refused.reasons[message.place]))
                self._counts["to the dead letters"] += 1


def dead_letter(message: Message, reason: str) -> bytes:
    """Return a message that cannot be learned, with its place and the reason. Bytes that are no text are in base64."""
    try:
        body = {"message": message.body.decode()}
    except UnicodeDecodeError:
        body = {"base64": base64.b64encode(message.body).decode()}
    return json.dumps({"place": str(message.place), "reason": reason, **body}, ensure_ascii=False).encode()


def reader(fields: Fields, schema: Path | None, *, confluent: bool = False) -> Callable[[Message], dict[str, Any]]:
    """Return the function that reads the example of a message: JSON, or Avro by a schema. confluent: whether
    Confluent's header stands before the Avro.
    """
    if schema is None:
        decode: Callable[[bytes], Any] = json.loads
    else:
        with needed("consume", "--schema"):
            import fastavro  # noqa: PLC0415

        try:
            parsed = fastavro.schema.load_schema(str(schema))
        except Exception as error:
            raise click.BadParameter(f"{schema} is no Avro schema: {error}", param_hint="'--schema'") from error

        def decode(body: bytes) -> Any:
            if confluent:
                if len(body) < CONFLUENT_BYTES or body[0] != 0:
                    raise ValueError(f"the header of Confluent is missing, found {body[:CONFLUENT_BYTES].hex(' ')}")
                body = body[CONFLUENT_BYTES:]
            return fastavro.schemaless_reader(io.BytesIO(body), parsed, None)

    def read(message: Message) -> dict[str, Any]:
        try:
            value = decode(message.body)
        except Exception as error:
            form = "JSON" if schema is None else "Avro of this schema"
            raise UnreadableRow(message.place, f"expected {form}: {error}") from error
        return fields.example(message, value)

    return read


@click.command(epilog="Example: hinged consume spam --from redis://127.0.0.1:6379/mails --to spam-predictions")
@click.argument("model")
@click.option(
    "--from",
    "source",
    metavar="URL",
    required=True,
    help="Topic to read: kafka, nats, redis or amqp://HOST:PORT/TOPIC. $NAME stands for an environment variable.",
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
    counts: Counter[str] = Counter()
    stop = threading.Event()
    sender = MessageSender(client, model, read, stop, counts)
    topics = Topics(source, predictions, dead_letters, group or f"hinged-{model}", batch)
    try:
        asyncio.run(run(sender, topics, counts, stop, idle))
    except BrokerError as error:
        raise click.ClickException(str(error)) from error
    finally:
        if counts:
            write(f"{model}: {', '.join(f'{counts[name]:,} {name}' for name in COUNTS if counts[name])}")


class Topics(NamedTuple):
    """Where messages come from and go to: the options --from, --to, --dead-letter, --group and --batch."""

    source: str
    predictions: str | None
    dead_letters: str | None
    group: str
    batch: int


async def run(
    sender: MessageSender, topics: Topics, counts: Counter[str], stop: threading.Event, idle: float | None
) -> None:
    """Consume until a signal, an error, or `idle` seconds without a message."""
    async with AsyncExitStack() as opened:

        async def connected(url: str) -> tuple[Broker, str]:
            broker, topic = broker_of(url, topics.group, topics.batch)
            opened.push_async_callback(broker.close)
            try:
                await broker.open()
            except Exception as error:
                raise BrokerError(f"no connection to the broker of {topic}: {error}") from error
            return broker, topic

        async def publisher(target: str | None) -> Callable[[bytes], Any] | None:
            if target is None:
                return None
            to, name = await connected(target) if "://" in target else (broker, target)
            return functools.partial(to.publish, name)

        broker, topic = await connected(topics.source)
        outputs = (await publisher(topics.predictions), await publisher(topics.dead_letters))
        consumer = Consumer(sender, counts, stop, *outputs)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, consumer.end)
        write(f"reading {topic}; Ctrl-C stops", err=True)
        await broker.start(topic, consumer.take)
        consumer.last_s = time.monotonic()
        while not consumer.ended.is_set() and not consumer.idle_for(idle):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(consumer.ended.wait(), IDLE_POLL_S if idle is not None else None)
    if consumer.error is not None:
        raise consumer.error
