"""Passwords as hashes, and browsers that are known."""

import pytest

from gatepost.store.people import passwords, users
from gatepost.store.people.passwords import MOST_KNOWN
from gatepost.store.port import Db

ANN, BEN = "web:user/ann", "web:user/ben"


@pytest.fixture(autouse=True)
def people(db: Db) -> None:
    for person in (ANN, BEN):
        users.add(db, person, "", 1)


def test_a_new_password_takes_the_place_of_the_old_one(db: Db) -> None:
    passwords.put(db, ANN, "one", 1)
    passwords.put(db, ANN, "two", 2)
    found = passwords.get(db, ANN)
    assert found is not None and (found.hash, found.changed_at) == ("two", 2)
    assert passwords.remove(db, ANN) and not passwords.remove(db, ANN)
    assert passwords.get(db, ANN) is None


def test_a_known_browser_is_one_persons_and_a_changed_password_forgets_it(db: Db) -> None:
    token = passwords.add_known_browser(db, ANN, 1)
    assert passwords.is_known_browser(db, ANN, token) and not passwords.is_known_browser(db, BEN, token)
    assert token not in str(db.rows("SELECT * FROM known_browsers"))
    passwords.put(db, ANN, "new", 2)
    assert not passwords.is_known_browser(db, ANN, token)


def test_of_many_known_browsers_the_oldest_is_forgotten(db: Db) -> None:
    made = [passwords.add_known_browser(db, ANN, at) for at in range(MOST_KNOWN + 2)]
    assert [passwords.is_known_browser(db, ANN, each) for each in made] == [False] * 2 + [True] * MOST_KNOWN


def test_what_is_a_persons_goes_with_her(db: Db) -> None:
    passwords.put(db, ANN, "one", 1)
    token = passwords.add_known_browser(db, ANN, 1)
    db.run("DELETE FROM users WHERE id = ?", (ANN,))
    assert passwords.get(db, ANN) is None and not passwords.is_known_browser(db, ANN, token)
