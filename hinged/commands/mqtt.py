"""MQTT 5, through paho-mqtt. A session of the broker keeps the messages of a group until this side acknowledges them.

paho-mqtt calls back on a thread of its own; everything else runs on the event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult

from hinged.commands.broker import UNIT, Broker, BrokerError, Message, Take, problems
from hinged.commands.logins import Login
from hinged.extras import needed
from hinged.readers import Place

PORTS = {"mqtt": 1883, "mqtts": 8883}
NEVER_S = 0xFFFF_FFFF
"""Seconds without a connection after which the broker may delete a session: MQTT's number for never."""
IN_FLIGHT_MAX = 65_535
"""Limit of unacknowledged messages, the largest number that MQTT can express."""
RECONNECT_S = 10
"""Longest pause between two tries to connect again."""
RETAINED_ONCE = 1
"""MQTT's number for: a retained message comes when a session begins, and not whenever its client connects."""
PUBLISH_S = 60.0
"""Seconds for which the command waits until the broker has a message. A restart of the broker must fit in."""


class _Arrival(NamedTuple):
    """A message, and how many connections were lost before it came."""

    losses: int
    raw: Any


class Mqtt(Broker):
    """MQTT. Its messages have no number that lasts, so each message needs an id of its own.

    The group is the name of the client that reads, and of its session. Another client publishes, because a broker ends
    the connection of a client if a client of the same name comes.
    """

    def __init__(self, url: SplitResult, login: Login, group: str, batch: int) -> None:
        super().__init__(url, login, group, batch)
        with needed("consume", "hinged consume"):
            from paho.mqtt import client  # noqa: PLC0415
        self._paho: Any = client
        self._clients: list[Any] = []
        self._losses, self._losing = 0, threading.Lock()
        self._published: dict[int, asyncio.Future[Any]] = {}

    async def open(self) -> None:
        """Connect the client that publishes."""
        loop = asyncio.get_running_loop()

        def published(_: Any, __: Any, number: int, reason: Any, ___: Any) -> None:
            loop.call_soon_threadsafe(lambda: _settle(self._published.pop(number), reason))

        self._publisher = await self._connected("", on_publish=published)

    async def start(self, topic: str, take: Take) -> None:
        """Pass the messages of a topic. The messages that arrive while a batch is in work are the next batch."""
        loop, waiting, numbers = asyncio.get_running_loop(), asyncio.Queue[_Arrival](), itertools.count(1)
        subscribed: asyncio.Future[Any] = loop.create_future()

        def lost(_: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
            with self._losing:
                self._losses += 1
            if not self._closing:
                problems().warning(f"the connection ended ({reason}) and is opened again")

        def received(_: Any, __: Any, raw: Any) -> None:
            loop.call_soon_threadsafe(waiting.put_nowait, _Arrival(self._losses, raw))

        def answered(_: Any, __: Any, ___: Any, reasons: list[Any], ____: Any) -> None:
            loop.call_soon_threadsafe(_settle, subscribed, reasons[0])

        async def deliver() -> None:
            while True:
                batch = [await waiting.get()]
                while len(batch) < self.batch and not waiting.empty():
                    batch.append(waiting.get_nowait())
                # The broker sends again what was unacknowledged when a connection was lost.
                batch = [arrival for arrival in batch if arrival.losses == self._losses]
                raws = [arrival.raw for arrival in batch]
                messages = [Message(Place(raw.topic, next(numbers), UNIT), raw.payload, None) for raw in raws]
                if batch:
                    await self._deliver(take, messages, lambda: self._acknowledge(batch))  # noqa: B023

        how = self._paho.SubscribeOptions(qos=1, retainHandling=RETAINED_ONCE)
        self._reader = await self._connected(self.group, on_disconnect=lost, on_message=received, on_subscribe=answered)
        self._reader.on_connect = lambda client, *_: client.subscribe(topic, options=how)  # sessions may be lost
        self._reader.subscribe(topic, options=how)
        _refuse(await subscribed, f"a subscription of {topic!r}")
        self._delivering = asyncio.create_task(deliver())

    async def publish(self, topic: str, body: bytes) -> None:
        """Publish a message. Return when the broker has the message."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._published[self._publisher.publish(topic, body, qos=1).mid] = future
        _refuse(await asyncio.wait_for(future, PUBLISH_S), f"a message for {topic!r}")

    async def _stop(self) -> None:
        for client in self._clients:
            client.disconnect()  # paho-mqtt sends acknowledgements that wait before this
            await asyncio.to_thread(client.loop_stop)

    async def _acknowledge(self, batch: Sequence[_Arrival]) -> None:
        # On a new connection the numbers of these messages may belong to other messages.
        with self._losing:
            for losses, raw in batch:
                if losses == self._losses:
                    self._reader.ack(raw.mid, raw.qos)

    async def _connected(self, name: str, **callbacks: Callable[..., None]) -> Any:
        """Return a connected client, which connects again by itself. name: its name if its session lasts, or ""."""
        mqtt, loop = self._paho, asyncio.get_running_loop()
        accepted: asyncio.Future[Any] = loop.create_future()

        def answered(_: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
            loop.call_soon_threadsafe(_settle, accepted, reason)

        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5, manual_ack=True)
        for event, callback in {"on_connect": answered, **callbacks}.items():
            setattr(client, event, callback)
        client.reconnect_delay_set(max_delay=RECONNECT_S)
        if self.login.user:
            client.username_pw_set(self.login.user, self.login.password)
        if self.login.tls is not None:
            client.tls_set_context(self.login.tls)
        how = mqtt.Properties(mqtt.PacketTypes.CONNECT)
        how.SessionExpiryInterval, how.ReceiveMaximum = NEVER_S if name else 0, min(self.batch, IN_FLIGHT_MAX)
        self._clients.append(client)
        port = self.url.port or PORTS[self.url.scheme]
        await asyncio.to_thread(client.connect, self.url.hostname, port, clean_start=not name, properties=how)
        client.loop_start()
        _refuse(await accepted, "the connection")
        return client


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():  # a lost connection makes the broker answer again
        future.set_result(value)


def _refuse(reason: Any, what: str) -> None:
    if reason.is_failure:
        raise BrokerError(f"the broker refuses {what}: {reason}")
