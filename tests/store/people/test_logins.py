"""Logins of the web page: one-time addresses, and the browsers that are signed in."""

import pytest

from gatepost.core.clock import HOUR
from gatepost.store.people import logins, users
from gatepost.store.people.logins import MOST_BROWSERS, BrowserLogin, NewBrowser
from gatepost.store.port import Db

OWNER, ANN = "web:user/owner", "web:user/ann"


@pytest.fixture(autouse=True)
def people(db: Db) -> None:
    users.add(db, OWNER, "Owner", 1)
    users.add(db, ANN, "Ann", 1)


def add(db: Db, user: str = OWNER, now: int = 1, expires_at: int = 100) -> tuple[str, BrowserLogin]:
    new = NewBrowser(user_id=user, way="one_time_link", device="Firefox on Linux", peer="127.0.0.1")
    return logins.add_browser(db, new, expires_at, now)


def test_a_one_time_address_works_once_and_not_for_long(db: Db) -> None:
    token, late = (logins.issue_once(db, OWNER, 100, 1) for _ in range(2))
    assert logins.redeem(db, token, 50) == OWNER
    assert logins.redeem(db, token, 50) is None
    assert logins.redeem(db, late, 100) is None
    assert logins.redeem(db, "made up", 50) is None


def test_a_browsers_token_is_no_one_time_address_and_is_kept_as_a_hash_alone(db: Db) -> None:
    token, browser = add(db)
    assert logins.redeem(db, token, 50) is None
    assert logins.find_browser(db, token, 50) == browser == logins.get_browser(db, browser.id, 50)
    assert logins.find_browser(db, token, 100) is None and logins.get_browser(db, browser.id, 100) is None
    assert token not in str(db.rows("SELECT * FROM logins"))
    logins.sign_out(db, token)
    assert logins.find_browser(db, token, 50) is None


def test_a_one_time_address_is_no_browser(db: Db) -> None:
    token = logins.issue_once(db, OWNER, 100, 1)
    assert logins.find_browser(db, token, 50) is None
    assert logins.list_all(db, 50) == [] == logins.list_of(db, (OWNER,), 50)
    assert logins.redeem(db, token, 50) == OWNER


def test_browsers_are_listed_by_when_they_were_last_here_and_of_one_person_alone(db: Db) -> None:
    (_, first), (_, second), (_, hers) = add(db, now=1), add(db, now=2), add(db, ANN, now=3)
    assert logins.record_seen(db, first.id, 1, 9)
    assert [each.id for each in logins.list_all(db, 50)] == [first.id, hers.id, second.id]
    assert [each.id for each in logins.list_of(db, (OWNER, "web:user/other"), 50)] == [first.id, second.id]
    assert logins.list_all(db, 100) == []


def test_a_visit_is_written_down_once_however_many_say_it(db: Db) -> None:
    _, browser = add(db, now=1, expires_at=9 * HOUR)
    assert [logins.record_seen(db, browser.id, HOUR, 2 * HOUR) for _ in range(3)] == [True, False, False]


def test_all_browsers_and_addresses_of_a_person_are_void_but_the_one_that_asks(db: Db) -> None:
    (_, kept), _, (_, hers) = add(db), add(db), add(db, ANN)
    token = logins.issue_once(db, OWNER, 100, 1)
    assert logins.remove_all(db, (OWNER, "telegram:user/1"), kept.id) == 2
    assert logins.redeem(db, token, 50) is None
    assert {each.id for each in logins.list_all(db, 50)} == {kept.id, hers.id}


def test_the_browser_that_was_away_longest_makes_room_for_one_too_many(db: Db) -> None:
    made = [add(db, now=at)[1].id for at in range(1, MOST_BROWSERS + 1)]
    _, hers = add(db, ANN)
    logins.record_seen(db, made[0], 99, 99)
    _, last = add(db, now=80)
    left = {each.id for each in logins.list_all(db, 90)}
    assert left == {*made, last.id, hers.id} - {made[1]}


def test_a_ticket_is_spent_once(db: Db) -> None:
    assert not logins.is_ticket_spent(db, "a")
    assert logins.add_spent_ticket(db, "a", 100 + 5, 100)
    assert logins.is_ticket_spent(db, "a")
    assert not logins.add_spent_ticket(db, "a", 100 + 5, 100)


def test_what_is_remembered_is_bounded_and_forgotten_when_it_is_too_old(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "MOST_TICKETS", 3)
    assert [logins.add_spent_ticket(db, each, 100 + 5, 100) for each in "abcd"] == [True, True, True, False]
    assert logins.add_spent_ticket(db, "e", 100 + 10, 100 + 5)
    assert not logins.is_ticket_spent(db, "a")
