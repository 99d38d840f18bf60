"""A hook calls only hosts that the operator lists, and a name only at global addresses."""

import asyncio
import socket
import ssl

import pytest
from pydantic import ValidationError

from hinged.service import limits
from hinged.service.engine.hooks import posting
from hinged.service.engine.hooks.calls import Calls
from hinged.service.errors import Conflict, Invalid
from hinged.service.model.curves import CurveMark
from hinged.service.model.hooks import Hook
from hinged.service.settings import Settings
from tests.helpers.certificates import self_signed
from tests.helpers.receiver import Receiver

SECRET = "a secret of the operator, which is long"  # noqa: S105
HOSTS = "hooks.example.com,http://plain.example.com:8080,http://10.0.0.7:8080,[2001:db8::7],localhost,http://localhost"
PUBLIC, PUBLIC_6 = "93.184.216.34", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
MARK = CurveMark("drift", 7, 3, 1_777_636_800_000)


def calls(hosts=HOSTS):
    return Calls(Settings(hooks_hosts=hosts, hooks_secret=SECRET))


@pytest.fixture
def resolver(monkeypatch):
    """A resolver that gives every name the addresses of a list."""
    addresses = [PUBLIC]

    def getaddrinfo(_, port, **__):
        return [(socket.AF_INET6 if ":" in a else socket.AF_INET, 1, 6, "", (a, port)) for a in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return addresses


def check(url, hosts=HOSTS):
    asyncio.run(calls(hosts).check(url))


@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com",
        "https://HOOKS.example.com/a/b?c=d&e=%20",
        "https://hooks.example.com:443/",
        "https://hooks.example.com?token=1",
        "http://plain.example.com:8080/",
        "http://10.0.0.7:8080/",  # listed as an address, so it may be private
        "https://[2001:db8::7]/",
        "https://[2001:0db8:0::0007]/",
    ],
)
def test_a_listed_host_may_be_called(url):
    check(url)


@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize(
    "url",
    [
        # another scheme or port than the listed one
        "http://hooks.example.com/", "https://hooks.example.com:8443/", "https://hooks.example.com:80/",
        "https://plain.example.com:8080/", "http://plain.example.com/", "http://10.0.0.7/", "https://10.0.0.7:8080/",
        "ftp://hooks.example.com/", "file:///etc/passwd", "gopher://hooks.example.com/", "//hooks.example.com/",
        "HTTPS://hooks.example.com/", "hooks.example.com", "https:/hooks.example.com/", "https:///", "",
        # the loopback address, in all its forms
        "http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/",
        "http://127.0.0.1./", "http://0/", "http://0.0.0.0/", "http://[::]/", "http://[::1]/", "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/", "http://[::127.0.0.1]/", "http://[fe80::1%25eth0]/", "http://127.0.0.1:8080/",
        # a listed address in another form
        "http://10.7:8080/", "http://[10.0.0.7]:8080/", "http://[" + ":" * 1900 + "]/",
        "http://167772167:8080/", "http://012.0.0.7:8080/", "http://[::ffff:10.0.0.7]:8080/",
        "http://10.0.0.07:8080/", "http://\uff11\uff10.0.0.7:8080/",
        # the metadata of clouds, and private addresses
        "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "http://192.168.0.1/", "http://10.0.0.8:8080/",
        # credentials, and what other parsers may take for another host
        "https://user:password@hooks.example.com/", "https://user@hooks.example.com/", "https://hooks.example.com@evil.example/",
        "https://hooks.example.com:443@evil.example/", "https://hooks.example.com#@evil.example/",
        "https://evil.example#hooks.example.com", "https://hooks.example.com\\@evil.example/",
        "https://hooks.example.com\\.evil.example/", "https://evil.example\\hooks.example.com/",
        "https://hooks.example.com.evil.example/", "https://evil.example/hooks.example.com",
        "https://hooks.example.com./", "https://hooks.example.com%2eevil.example/", "https://hooks.example.com:/",
        "https://hooks.example.com /", "https://hooks.example.com/a b", "https://hooks.example.com/\r\nx: y",
        "https://hooks.example.com/\u00e9", "https://hooks.example.com/#part", " https://hooks.example.com/",
        "https://hooks.example.com/\n", "https://h\u00f6oks.example.com/", "https://hooks.example.com:99999/",
        "https://hooks.example.com/" + "x" * limits.URL_CHARS_MAX,
    ],
)  # fmt: skip
def test_any_other_url_is_refused(url):
    with pytest.raises(Invalid, match=r"^url: ") as refused:
        check(url)
    assert "password" not in refused.value.message.replace("without user, password", "")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0",  # noqa: S104
        "10.0.0.7", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "2002:7f00:1::1", "2002:a00:1::1",
        "2001::1", "fe80::1", "fe80::1%1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "100::1",
    ],
)  # fmt: skip
def test_a_name_at_an_address_that_is_not_global_is_refused_even_beside_a_global_address(resolver, address):
    for resolver[:] in ([address], [PUBLIC, address]):
        with pytest.raises(Invalid, match=r"hooks.example.com has the address .*, which is not global"):
            check("https://hooks.example.com/")


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_6, f"::ffff:{PUBLIC}", "8.8.8.8"])
def test_a_name_at_a_global_address_is_called(resolver, address):
    resolver[:] = [address]
    check("https://hooks.example.com/")


def test_a_listed_network_permits_the_addresses_of_names_but_no_further_host(resolver):
    hosts = f"{HOSTS},127.0.0.0/8,fd00::/8"
    for resolver[:] in (["127.0.0.1"], ["fd00::1", PUBLIC]):
        check("http://localhost/", hosts)
    resolver[:] = ["10.0.0.1"]
    with pytest.raises(Invalid, match=r"10\.0\.0\.1"):
        check("http://localhost/", hosts)
    with pytest.raises(Invalid, match="does not list"):
        check("http://127.0.0.1/", hosts)


def test_a_name_without_an_address_is_refused(monkeypatch):
    def getaddrinfo(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(Invalid, match="has no address"):
        check("https://hooks.example.com/")


@pytest.mark.parametrize(
    "hosts",
    ["127.1", "2130706433", "0x7f.1", "a b", "https://", "ftp://a.example", "a.example/path", "u@a.example",
     "10.0.0.0/33", "a.example:0", "a.example:65536", "http://a.example/", "*", "*.example.com", "a.example.",
     "10.0.0.1/8"],
)  # fmt: skip
def test_a_setting_that_names_no_host_is_refused(hosts):
    with pytest.raises(ValidationError):
        Settings(hooks_hosts=hosts)


def test_a_short_secret_is_refused_and_not_quoted():
    with pytest.raises(ValidationError) as refused:
        Settings(hooks_secret="too short")  # noqa: S106
    (problem,) = refused.value.errors()
    assert problem["msg"] == "it must have at least 32 characters"  # the server shows no other part of the error
    assert SECRET not in repr(Settings(hooks_secret=SECRET))


def test_without_a_secret_the_error_names_the_setting():
    with pytest.raises(Conflict, match="HINGED_HOOKS_SECRET"):
        Calls(Settings()).check_enabled()


def send(hosts, url):
    """Return the outcome of one call."""
    return asyncio.run(calls(hosts).send("m", Hook("1" * 32, url, ("drift",), 0, 1), MARK))


def test_a_call_connects_to_the_address_that_was_checked_and_looks_the_name_up_only_once(monkeypatch):
    with Receiver() as receiver:
        asked = []

        def getaddrinfo(name, port, **_):
            asked.append(name)  # a second look-up would give another address, as DNS rebinding does
            address = "127.0.0.1" if len(asked) == 1 else "127.0.0.2"
            return [(socket.AF_INET, 1, 6, "", (address, port))]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        url = f"http://hooks.example.com:{receiver.port}/path?a=b"
        assert send(f"http://hooks.example.com:{receiver.port},127.0.0.1/32", url) is None
        assert asked == ["hooks.example.com"]
        ((headers, _),) = receiver.got
        assert headers["host"] == f"hooks.example.com:{receiver.port}"


def test_a_redirect_is_not_followed_and_no_proxy_of_the_environment_is_used(monkeypatch):
    with Receiver() as receiver, Receiver() as other:
        monkeypatch.setenv("HTTP_PROXY", other.host)
        monkeypatch.setenv("ALL_PROXY", other.host)
        receiver.answers, receiver.headers = [302, 307, 308], {"location": f"{other.host}/secret"}
        for status in (302, 307, 308):
            assert send(receiver.host, f"{receiver.host}/") == f"the receiver answered {status}"
        assert (len(receiver.got), other.got) == (3, [])


def test_a_host_that_is_no_longer_listed_is_not_called():
    with Receiver() as receiver:
        assert "does not list" in send("hooks.example.com", f"{receiver.host}/")
        assert receiver.got == []


def answering(data):
    """Return the outcome of a call that gets these bytes, again and again, as its answer."""

    async def talk(reader, writer):
        try:
            while True:
                writer.write(data)
                await writer.drain()
                if not data:
                    await reader.read(2**16)
                    break
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def main():
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        host = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            return await calls(host).send("m", Hook("1" * 32, f"{host}/", ("drift",), 0, 1), MARK)
        finally:
            server.close()

    return asyncio.run(main())


@pytest.mark.long
def test_an_answer_has_bounded_length_and_is_not_repeated_in_the_error():
    assert answering(b"HTTP/1.1 200 OK\r\n") == "the receiver does not answer: RemoteProtocolError"
    assert answering(b"secret of another service\r\n") == "the receiver does not answer: RemoteProtocolError"
    assert answering(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2**16) is None  # the body is not read
    assert answering(b"") == "the receiver does not answer: RemoteProtocolError"


def test_a_receiver_that_hangs_ends_the_call_after_a_limit(monkeypatch):
    monkeypatch.setattr(limits, "HOOK_CALL_S", 0.2)
    with Receiver() as receiver:
        receiver.open.clear()
        assert send(receiver.host, f"{receiver.host}/") == "the receiver has not answered within 0.2 s"


def test_the_certificate_of_a_receiver_is_checked_against_the_name_in_the_url(tmp_path, monkeypatch, resolver):
    certificate, key = self_signed(tmp_path, "DNS:hooks.example.com")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    resolver[:] = ["127.0.0.1"]
    with Receiver(tls) as receiver:
        hosts = f"hooks.example.com:{receiver.port},other.example.com:{receiver.port},127.0.0.0/8"

        def outcome(name):
            posting.certificates.cache_clear()
            return send(hosts, f"https://{name}:{receiver.port}/")

        assert "certificate verify failed" in outcome("hooks.example.com")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert "certificate is not valid for 'other.example.com'" in outcome("other.example.com")
        assert receiver.got == []
        assert outcome("hooks.example.com") is None
        assert len(receiver.got) == 1
    posting.certificates.cache_clear()
