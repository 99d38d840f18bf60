"""Message brokers, most of them through FastStream.

A class states what a place, a batch and an acknowledgement are for its broker. FastStream does the rest: connections,
subscriptions and retries.
"""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, unquote

from hinged.commands.broker import UNIT, Broker, BrokerError, Message, Take, problems
from hinged.commands.logins import PARAMETERS, Login, located, shown
from hinged.commands.mqtt import Mqtt
from hinged.extras import needed
from hinged.readers import Place

CONSUMER = "hinged"
"""Name of the consumer in a group of Redis. After a crash, the consumer of this name gets its messages again."""
COLLECT_S = 0.2
"""Seconds for which a broker collects a batch. A longer time delays single messages."""
NATS_ACK_WAIT_S = 2.0
"""Seconds after which NATS delivers an unacknowledged message again. A consumer that starts after a crash waits for
this time. A longer batch gets its messages twice, without harm, because the server knows their ids."""
KAFKA_WORK_S = 86_400
"""Seconds for which a consumer may work on a batch before Kafka gives its partitions away. The consumer waits for an
unreachable server during this time."""


class OfFastStream(Broker):
    """A broker behind FastStream."""

    def __init__(self, url: SplitResult, login: Login, group: str, batch: int) -> None:
        super().__init__(url, login, group, batch)
        with needed("consume", "hinged consume"):
            self._broker = self._connection(url, login)

    @abstractmethod
    def _connection(self, url: SplitResult, login: Login) -> Any:
        """Return the broker of FastStream."""

    async def open(self) -> None:
        """Connect."""
        await self._broker.connect()

    async def _stop(self) -> None:
        await self._broker.stop()


class Kafka(OfFastStream):
    """Kafka. An acknowledgement commits the positions after a batch."""

    def _connection(self, url: SplitResult, login: Login) -> Any:
        from faststream.kafka import KafkaBroker  # noqa: PLC0415

        return KafkaBroker(url.netloc, security=login.security(), **common())

    async def start(self, topic: str, take: Take) -> None:
        """Pass the messages of the partitions that Kafka assigns, each partition in order."""
        from faststream import AckPolicy  # noqa: PLC0415

        async def deliver(batch: Any) -> None:
            places = [Place(f"{record.topic}/{record.partition}", record.offset, UNIT) for record in batch.raw_message]
            bodies = [record.value or b"" for record in batch.raw_message]
            await self._deliver(take, placed(places, bodies), batch.ack)

        self._broker.subscriber(
            topic,
            group_id=self.group,
            batch=True,
            max_records=self.batch,
            batch_timeout_ms=int(COLLECT_S * 1000),
            auto_offset_reset="earliest",
            max_poll_interval_ms=KAFKA_WORK_S * 1000,
            ack_policy=AckPolicy.MANUAL,
        )(deliver)
        await self._broker.start()

    async def publish(self, topic: str, body: bytes) -> None:
        """Publish a message. Return when the leader of the partition has the message."""
        await self._broker.publish(body, topic)


class Nats(OfFastStream):
    """NATS with JetStream. The number of a message is its sequence in the stream."""

    def _connection(self, url: SplitResult, login: Login) -> Any:
        from faststream.nats import NatsBroker  # noqa: PLC0415
        from faststream.nats.security import NatsToken  # noqa: PLC0415

        token = login.user if login.password is None else ""
        security = NatsToken(token, ssl_context=login.tls) if token else login.security()
        return NatsBroker(f"{url.scheme}://{url.netloc}", security=security, **common())

    async def open(self) -> None:
        """Connect."""
        self._streams: dict[str, str] = {}
        self._jetstream = (await self._broker.connect()).jetstream()

    async def start(self, topic: str, take: Take) -> None:
        """Pass the messages of a subject. No new message comes while a full batch is not acknowledged."""
        from faststream import AckPolicy  # noqa: PLC0415
        from faststream.nats import ConsumerConfig, JStream, PullSub  # noqa: PLC0415
        from nats.js.errors import NotFoundError  # noqa: PLC0415

        stream, durable = await self._stream(topic), self.group.replace(".", "_")
        try:
            unacknowledged = (await self._jetstream.consumer_info(stream, durable)).num_ack_pending
        except NotFoundError:
            unacknowledged = 0
        if unacknowledged:  # a crash left them, and they must come before new messages
            await asyncio.sleep(NATS_ACK_WAIT_S)

        async def deliver(batch: Any) -> None:
            places = [Place(stream, message.metadata.sequence.stream, UNIT) for message in batch.raw_message]
            await self._deliver(take, placed(places, [message.data for message in batch.raw_message]), batch.ack)

        self._broker.subscriber(
            topic,
            durable=durable,
            stream=JStream(stream, declare=False),
            pull_sub=PullSub(self.batch, timeout=COLLECT_S, batch=True),
            config=ConsumerConfig(ack_wait=NATS_ACK_WAIT_S, max_ack_pending=self.batch),
            ack_policy=AckPolicy.MANUAL,
        )(deliver)
        await self._broker.start()

    async def publish(self, topic: str, body: bytes) -> None:
        """Publish a message. Return when the stream has the message."""
        await self._broker.publish(body, topic, stream=await self._stream(topic))

    async def _stream(self, subject: str) -> str:
        """Return the name of the stream that keeps a subject."""
        from nats.js.errors import NotFoundError  # noqa: PLC0415

        try:
            if subject not in self._streams:
                self._streams[subject] = str(await self._jetstream.find_stream_name_by_subject(subject))
            return self._streams[subject]
        except NotFoundError as error:
            raise BrokerError(f"no JetStream stream keeps the subject {subject!r}: create a stream first") from error


class Redis(OfFastStream):
    """Redis streams. The number of a message is the id of its entry."""

    def _connection(self, url: SplitResult, login: Login) -> Any:
        from faststream.redis import RedisBroker  # noqa: PLC0415

        return RedisBroker(url.geturl(), security=login.security(), **common(), parser=unparsed)

    async def open(self) -> None:
        """Connect."""
        self._redis = await self._broker.connect()
        await self._redis.ping()

    async def start(self, topic: str, take: Take) -> None:
        """Pass the entries of a stream.

        Redis lists the entries that a consumer received and did not acknowledge. A delivery makes this class read the
        list. So entries that a crash or a broken connection left there come first.
        """
        from faststream import AckPolicy  # noqa: PLC0415
        from faststream.redis import StreamSub  # noqa: PLC0415

        async def deliver(_: object) -> None:
            unacknowledged = {topic: "0"}
            while read := await self._redis.xreadgroup(self.group, CONSUMER, unacknowledged, count=self.batch):
                ((_, entries),) = read
                if not entries:
                    return
                keys = [key for key, _ in entries]
                places = [Place(topic, key.decode(), UNIT) for key in keys]
                messages = placed(places, [body_of(fields) for _, fields in entries])
                if not await self._deliver(take, messages, lambda: self._redis.xack(topic, self.group, *keys)):  # noqa: B023
                    return

        try:
            await self._redis.xgroup_create(topic, self.group, id="0", mkstream=True)
        except Exception as error:
            if not str(error).startswith("BUSYGROUP"):  # the group exists
                raise
        await deliver(None)
        self._broker.subscriber(
            stream=StreamSub(topic, group=self.group, consumer=CONSUMER, batch=True, max_records=self.batch),
            ack_policy=AckPolicy.MANUAL,
        )(deliver)
        await self._broker.start()

    async def publish(self, topic: str, body: bytes) -> None:
        """Add an entry with the field `data`."""
        await self._redis.xadd(topic, {"data": body})


class Rabbit(OfFastStream):
    """RabbitMQ. The number of a message is its property message_id."""

    def _connection(self, url: SplitResult, login: Login) -> Any:
        from faststream.rabbit import Channel, RabbitBroker  # noqa: PLC0415

        channel = Channel(prefetch_count=self.batch, on_return_raises=True)
        return RabbitBroker(url.geturl(), security=login.security(), **common(), default_channel=channel)

    async def start(self, topic: str, take: Take) -> None:
        """Pass the messages of a queue. The messages that arrive while a batch is in work are the next batch."""
        from faststream import AckPolicy  # noqa: PLC0415
        from faststream.rabbit import RabbitQueue  # noqa: PLC0415

        waiting: list[Any] = []

        async def deliver(message: Any) -> None:
            waiting.append(message.raw_message)
            async with self._turn:
                batch = sorted(waiting, key=lambda raw: raw.delivery_tag)
                waiting.clear()
                if batch:
                    messages = [_of_queue(topic, raw) for raw in batch]
                    await self._process(take, messages, lambda: asyncio.gather(*(raw.ack() for raw in batch)))

        self._broker.subscriber(RabbitQueue(topic, durable=True, declare=False), ack_policy=AckPolicy.MANUAL)(deliver)
        await self._broker.start()

    async def publish(self, topic: str, body: bytes) -> None:
        """Publish a message to a queue. Return when the queue has the message."""
        await self._broker.publish(body, topic, mandatory=True, persist=True)


BROKERS: Mapping[str, type[Broker]] = {
    **dict.fromkeys(("kafka", "kafkas"), Kafka),
    **dict.fromkeys(("nats", "tls"), Nats),
    **dict.fromkeys(("redis", "rediss"), Redis),
    **dict.fromkeys(("amqp", "amqps"), Rabbit),
    **dict.fromkeys(("mqtt", "mqtts"), Mqtt),
}
"""The class of each scheme of a URL."""
NAMESPACED = (Redis, Rabbit)
"""Brokers whose URL may name a database or a virtual host before the topic, and parameters of their library."""


def broker_of(url: str, group: str, batch: int) -> tuple[Broker, str]:
    """Return the broker and the topic of a URL like redis://127.0.0.1:6379/events."""
    try:
        parts, login = located(url)
    except (OSError, ValueError) as error:
        raise BrokerError(str(error)) from error
    kind = BROKERS.get(parts.scheme)
    before, _, topic = parts.path.rpartition("/") if kind in NAMESPACED else ("", "", parts.path.removeprefix("/"))
    if kind is None or not parts.netloc or not topic or (parts.query and kind not in NAMESPACED):
        schemes = ", ".join(BROKERS)
        raise BrokerError(
            f"expected SCHEME://HOST:PORT/TOPIC with one of the schemes {schemes}, and parameters among "
            f"{', '.join(sorted(PARAMETERS))}, got {shown(url)!r}"
        )
    return kind(parts._replace(path=before), login, group, batch), unquote(topic)


def placed(places: Sequence[Place], bodies: Sequence[bytes]) -> list[Message]:
    """Return messages whose places are their ids."""
    return [Message(place, body, f"{place.file}/{place.number}") for place, body in zip(places, bodies, strict=True)]


def _of_queue(queue: str, raw: Any) -> Message:
    given = raw.message_id
    place = Place(queue, raw.delivery_tag if given is None else given, UNIT)
    return Message(place, raw.body, None if given is None else f"{queue}/{given}")


def body_of(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the message of a Redis entry: its only field, or all fields as an object.

    The message of FastStream's own publishers is the field `__data__`, with headers before it.
    """
    if len(fields) > 1:
        texts = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in fields.items()}
        return json.dumps({name: _json_or_text(text) for name, text in texts.items()}).encode()
    ((name, value),) = fields.items()
    if name != b"__data__":
        return value
    from faststream.redis.parser import BinaryMessageFormatV1  # noqa: PLC0415

    body: bytes = BinaryMessageFormatV1.parse(value)[0]
    return body


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def common() -> dict[str, Any]:
    """Return the options of every broker: messages come unchanged, and problems are written to stderr."""
    return {"decoder": _whole, "apply_types": False, "logger": problems(), "graceful_timeout": None}


async def _whole(message: Any) -> Any:
    return message


async def unparsed(raw: Any) -> Any:
    """Return a delivery of Redis without its messages."""
    from faststream.message import StreamMessage  # noqa: PLC0415

    return StreamMessage(raw_message=raw, body=b"")
