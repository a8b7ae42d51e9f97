"""Tickets that were used: once each, a bounded number, and forgotten when they have expired."""

import pytest

from gatepost.store.port import Db
from gatepost.store.web import spent_tickets

NOON = 1_800_000_000_000_000


def test_a_ticket_is_spent_once(db: Db) -> None:
    assert not spent_tickets.is_there(db, "a")
    assert spent_tickets.add(db, "a", NOON + 5, NOON)
    assert spent_tickets.is_there(db, "a")
    assert not spent_tickets.add(db, "a", NOON + 5, NOON)


def test_what_is_remembered_is_bounded_and_forgotten_when_it_is_too_old(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spent_tickets, "MOST", 3)
    assert [spent_tickets.add(db, each, NOON + 5, NOON) for each in "abcd"] == [True, True, True, False]
    assert spent_tickets.add(db, "e", NOON + 10, NOON + 5)
    assert not spent_tickets.is_there(db, "a")
