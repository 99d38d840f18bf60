"""Logins to brokers: passwords, SASL and TLS, as the URL of a broker names them."""

import asyncio
import ssl
import struct
import sys

import pytest

from hinged.commands import brokers
from hinged.commands.logins import located, shown
from tests.helpers.brokers import KafkaBroker, NatsBroker, RedisBroker
from tests.helpers.certificates import self_signed
from tests.helpers.redis_server import PASSWORD
from tests.helpers.server import free_port, missing

SECRET = "p@ss/w:rd%41#?"  # noqa: S105  every character that has a meaning in a URL


@pytest.fixture
def secret(monkeypatch, tmp_path):
    """Put the password into a variable and into a file; return the file."""
    monkeypatch.setenv("SECRET", SECRET)
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    return file


@pytest.mark.parametrize("password", ["$SECRET", "${SECRET}"])
@pytest.mark.usefixtures("secret")
def test_a_variable_is_the_password_itself_whatever_its_characters(password):
    parts, login = located(f"kafka://me%40home:{password}@h:1,i:2/t")
    assert (parts.geturl(), login.user, login.password) == ("kafka://h:1,i:2/t", "me@home", SECRET)


def test_a_password_may_come_from_a_file(secret):
    parts, login = located(f"redis://me@h:1/2/t?password-file={secret}&socket_timeout=3")
    assert (parts.geturl(), login.user, login.password) == ("redis://h:1/2/t?socket_timeout=3", "me", SECRET)


def test_a_whole_url_may_come_from_a_variable(monkeypatch):
    monkeypatch.setenv("BROKER", "amqp://me:word@h:1/t")
    assert located("$BROKER")[1][:2] == ("me", "word")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("kafka://me:word@h:1/t", "the URL of h:1 contains a password, which other users of this machine can see"),
        ("kafka://me:word$SECRET@h:1/t", "contains a password"),
        ("kafka://me:$MISSING@h:1/t", "the environment has no variable MISSING"),
        ("kafka://me@h:1/t?password-file=/nowhere", "No such file or directory: '/nowhere'"),
        ("kafka://me:$SECRET@h:1/t?sasl=gssapi", "expected sasl=plain, scram-sha-256, scram-sha-512 in a URL of Kafka"),
        ("nats://me:$SECRET@h:1/t?sasl=plain", "expected sasl=.*got sasl=plain for nats"),
        ("redis://h:1/t?ca=x", "ca: redis:// has no TLS; one of amqps, kafkas, mqtts, rediss, tls is needed"),
        ("kafkas://h:1/t?ca=/nowhere", "No such file"),
        ("kafkas://h:1/t?key=k", "key=FILE needs cert=FILE"),
        (
            "kafka://me:$SECRET@h:1/t?sals=plain",
            "parameters among ca, cert, key, password-file, sasl, got 'kafka://h:1",
        ),
        ("http://me:$SECRET@h:1/t", "got 'http://h:1/t'"),
    ],
)
@pytest.mark.usefixtures("secret")
def test_an_invalid_login_is_refused_and_no_message_shows_a_password(url, reason):
    with pytest.raises(brokers.BrokerError, match=reason) as refused:
        brokers.broker_of(url, "g", 1)
    assert "word@" not in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "kind"),
    [("", "SASLPlaintext"), ("?sasl=scram-sha-256", "SASLScram256"), ("?sasl=SCRAM-SHA-512", "SASLScram512")],
)
@pytest.mark.usefixtures("secret")
def test_a_url_names_the_mechanism_of_sasl(given, kind):
    security = located(f"kafkas://me:$SECRET@h:1/t{given}")[1].security()
    assert (type(security).__name__, security.username, security.password) == (kind, "me", SECRET)
    assert security.use_ssl


def test_a_url_is_shown_without_user_and_password():
    assert shown("redis://me:wo@rd@h:1/t?x=a@b") == "redis://h:1/t?x=a@b"


# -- real brokers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1, and its key. Servers and clients of these tests share it."""
    return self_signed(tmp_path_factory.mktemp("tls"), "IP:127.0.0.1")


async def _read(url):
    """Publish a message; return what a consumer reads."""
    broker, topic = brokers.broker_of(url, "g", 10)
    found, read = [], asyncio.Event()

    async def take(messages):
        found.extend(message.body for message in messages)
        read.set()
        return True

    try:
        await broker.open()
        await broker.publish(topic, b"{}")
        await broker.start(topic, take)
        await read.wait()
    finally:
        await broker.close()
    return found


def read(url):
    return asyncio.run(_read(url))


def test_redis_takes_a_password_and_a_certificate_of_the_client(tmp_path, certificate):
    server, key = certificate
    with RedisBroker(tmp_path) as broker:
        with broker.client() as client:
            for name, value in {"tls-ca-cert-file": server, "tls-cert-file": server, "tls-key-file": key}.items():
                client.config_set(name, str(value))
            client.config_set("port", 0)
            client.config_set("tls-port", broker.port)
        url = broker.url("t").replace("redis://", "rediss://")
        assert read(f"{url}&ca={server}&cert={server}&key={key}") == [b"{}"]
        for wrong in (url, f"{url}&ca={server}"):
            with pytest.raises(Exception, match=r"(?i)certificate|connection") as refused:
                read(wrong)
            assert PASSWORD not in str(refused.value)


@pytest.mark.usefixtures("secret")
def test_nats_takes_a_password_and_a_token_over_tls(tmp_path, certificate):
    server, key = certificate
    tls = ["--tls", "--tlscert", str(server), "--tlskey", str(key)]
    for arguments, login in ((["--user", "me", "--pass", SECRET], "me:$SECRET"), (["--auth", SECRET], "$SECRET")):
        with NatsBroker(tmp_path / login[:2], *tls, *arguments) as broker:
            url = f"tls://{login}@127.0.0.1:{broker.port}/t?ca={server}"
            asyncio.run(_add_stream(url))
            assert read(url) == [b"{}"]


async def _add_stream(url):
    broker, topic = brokers.broker_of(url, "g", 1)
    await broker.open()
    await broker._jetstream.add_stream(name="T", subjects=[topic])
    await broker.close()


@pytest.mark.long
def test_kafka_connects_over_tls(tmp_path, certificate):
    """Another program terminates TLS before the broker."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*certificate)
    port = free_port()

    async def read_over_tls(broker):
        async def pass_on(reader, writer):
            there = await asyncio.open_connection("127.0.0.1", broker.port)
            await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))

        async with await asyncio.start_server(pass_on, "127.0.0.1", port, ssl=tls):
            return await _read(f"kafkas://127.0.0.1:{port}/t?ca={certificate[0]}")

    with KafkaBroker(tmp_path, port) as broker:
        assert asyncio.run(read_over_tls(broker)) == [b"{}"]


async def _pump(reader, writer):
    while piece := await reader.read(65_536):
        writer.write(piece)
        await writer.drain()
    writer.close()


VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
"""Numbers of requests in Kafka's protocol."""


@pytest.mark.long
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.usefixtures("secret")
def test_kafka_takes_a_login_by_scram(tmp_path, monkeypatch, mechanism):
    """The broker at hand keeps no users. So another program checks the login before the broker, with another
    implementation of SCRAM.
    """
    try:
        import scramp  # noqa: PLC0415
    except ImportError:
        missing("there is no scramp: pip install scramp")
    scram, port = scramp.ScramMechanism(mechanism), free_port()
    users = {"me": scram.make_auth_info(SECRET)}
    url = f"kafka://me:$SECRET@127.0.0.1:{port}/t?sasl={mechanism.lower()}"

    async def behind_login(broker, task):
        lines = []

        async def pass_on(reader, writer):
            lines.append(asyncio.current_task())
            there = await asyncio.open_connection("127.0.0.1", broker.port)
            answers = asyncio.create_task(_pump(there[0], writer))
            try:
                await _log_in(reader, writer, there[1], scram.make_server(users.__getitem__))
                await _pump(reader, there[1])
            except (scramp.ScramException, asyncio.IncompleteReadError):
                there[1].close()
            await answers

        async with await asyncio.start_server(pass_on, "127.0.0.1", port):
            found = await task(url)
            await asyncio.gather(*lines)
            return found

    with KafkaBroker(tmp_path, port) as broker:
        assert asyncio.run(behind_login(broker, _read)) == [b"{}"]
        monkeypatch.setenv("SECRET", f"{SECRET}!")
        assert b"Unable to bootstrap" in asyncio.run(behind_login(broker, _refused))


async def _refused(url):
    """Connect in another process, because aiokafka leaves a refused producer open. Return what the process prints."""
    program = "import asyncio, sys; from hinged.commands.brokers import broker_of as of; "
    program += "asyncio.run(of(sys.argv[1], 'g', 1)[0].open())"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, url, stderr=asyncio.subprocess.PIPE)
    return (await process.communicate())[1]


async def _log_in(reader, writer, broker, server):
    """Answer the requests of a login. Before the login, the broker gets only the question for its versions."""
    while True:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        frame = await reader.readexactly(size)
        request, version, number, client = struct.unpack(">hhih", frame[:10])
        body = frame[10 + client :]
        if request == VERSIONS:
            broker.write(struct.pack(">i", size) + frame)
            continue
        if request == HANDSHAKE:
            answer = struct.pack(">hi", 0, 1) + body  # no error, and a list of the mechanism
        else:
            assert request == AUTHENTICATE
            said = body[4:].decode()
            first = said.startswith("n,,")
            (server.set_client_first if first else server.set_client_final)(said)
            told = (server.get_server_first() if first else server.get_server_final()).encode()
            answer = struct.pack(">hhi", 0, -1, len(told)) + told + bytes(8 * version)
        writer.write(struct.pack(">ii", 4 + len(answer), number) + answer)
        if request == AUTHENTICATE and not first:
            return
