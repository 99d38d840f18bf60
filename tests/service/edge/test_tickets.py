"""Tickets of one process, and of several processes that share a secret."""

import base64
import string
import time

import pytest

from hinged.service.edge.keys import NOBODY_ASKED
from hinged.service.edge.tickets import Tickets
from hinged.service.errors import QueueFull


def signing(monkeypatch, at, secret=b"s", most=3, known=(NOBODY_ASKED,)):
    """Return the tickets of a process that begins at the time `at`. The clock then stays at this time."""
    monkeypatch.setattr(time, "time_ns", lambda: round(at * 10**9))
    return Tickets(secret, 30.0, most, lambda: known)


def test_a_ticket_is_valid_once_at_each_process_with_the_secret(monkeypatch):
    one, other = signing(monkeypatch, 100.0), signing(monkeypatch, 100.0)
    ticket = one.issue(NOBODY_ASKED)
    for process in (other, one):
        assert process.redeem(ticket) is NOBODY_ASKED
        assert process.redeem(ticket) is None
    assert signing(monkeypatch, 100.0, secret=b"another").redeem(one.issue(NOBODY_ASKED)) is None
    assert signing(monkeypatch, 100.0, known=()).redeem(one.issue(NOBODY_ASKED)) is None  # the key was revoked


def test_a_ticket_that_was_altered_or_expired_or_predates_the_process_is_invalid(monkeypatch):
    tickets = signing(monkeypatch, 100.0)
    first, second = tickets.issue(NOBODY_ASKED), tickets.issue(NOBODY_ASKED)
    for k in range(len(first)):  # the last letters too, because different letters may decode to the same bytes
        for letter in {*string.ascii_letters, *string.digits, *"-_+/="} - {first[k]}:
            assert tickets.redeem(first[:k] + letter + first[k + 1 :]) is None
    for nonsense in ("", "nonsense", "é", first[:-4], first + first, first + "="):
        assert tickets.redeem(nonsense) is None
    assert tickets.redeem(first) is NOBODY_ASKED
    later = signing(monkeypatch, 110.0)  # the new process does not know which tickets were used before
    assert later.redeem(second) is None
    monkeypatch.setattr(time, "time_ns", lambda: 130 * 10**9)
    assert tickets.redeem(second) is None


def test_parts_of_a_ticket_and_a_key_do_not_make_a_ticket(monkeypatch):
    # A ticket contains a fingerprint of its key: a signature that is made with the same secret. The key's owner knows
    # the signed text, but cannot use the text and its signature as a ticket.
    key = NOBODY_ASKED.model_copy(update={"sha256": "f" * 64})
    tickets = signing(monkeypatch, 100.0, most=2, known=(key,))
    given = base64.urlsafe_b64decode(tickets.issue(key))
    for start in range(len(given) - 31):
        made = base64.urlsafe_b64encode(bytes.fromhex(key.sha256) + given[start : start + 32]).decode()
        assert tickets.redeem(made) is None
    assert tickets.redeem(tickets.issue(key)) is key
    monkeypatch.setattr(time, "time_ns", lambda: 200 * 10**9)  # no ticket is remembered after it has expired
    for _ in range(2):
        assert tickets.redeem(tickets.issue(key)) is key


def test_issued_and_used_tickets_are_limited(monkeypatch):
    one, other = signing(monkeypatch, 100.0, most=4), signing(monkeypatch, 100.0, most=2)
    given = [one.issue(NOBODY_ASKED) for _ in range(4)]
    with pytest.raises(QueueFull):
        one.issue(NOBODY_ASKED)
    assert [other.redeem(ticket) for ticket in given[:2]] == [NOBODY_ASKED] * 2
    with pytest.raises(QueueFull):
        other.redeem(given[2])
    assert one.redeem(given[3]) is NOBODY_ASKED
    one.issue(NOBODY_ASKED)  # a ticket that it issued was used, so it may issue another ticket
    monkeypatch.setattr(time, "time_ns", lambda: 130 * 10**9)
    assert other.redeem(one.issue(NOBODY_ASKED)) is NOBODY_ASKED
