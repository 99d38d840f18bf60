import pytest

from service.edge import Edge
from service.errors import Forbidden
from service.settings import Settings


def write_from(origin, host="localhost:8000"):
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    return {"type": "http", "method": "POST", "headers": headers}


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://a]b", "null", "", "http://evil.example"])
def test_an_origin_that_is_foreign_or_no_origin_at_all_may_not_write(origin):
    with pytest.raises(Forbidden, match="may not write"):
        Edge(None, Settings()).check(write_from(origin))


def test_a_page_of_this_server_and_an_allowed_origin_may_write(monkeypatch):
    monkeypatch.setenv("HINGED_ALLOWED_ORIGINS", "https://a.example, https://b.example")
    edge = Edge(None, Settings())
    for origin in ("http://localhost:8000", "https://a.example", "https://b.example"):
        edge.check(write_from(origin))
