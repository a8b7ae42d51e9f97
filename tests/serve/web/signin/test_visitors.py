"""The person behind a browser: judged anew with each request, and shown no more than their rooms."""

import pytest

from gatepost.flow.groups import add_defaults
from gatepost.serve.web.signin.visitors import OWN_ROOM, WebVisitor, find_browser_visitor, find_visitor
from gatepost.store.people import identities, logins, users
from gatepost.store.people.logins import NewBrowser
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db

NOON = 1_800_000_000_000_000
ANN = "web:user/ann"
MAIN = "web:main"


@pytest.fixture(autouse=True)
def people(db: Db) -> None:
    add_defaults(db, NOON)
    users.add(db, ANN, "Ann", NOON)


def sign_in(db: Db, user: str = ANN, until: int = NOON + 100) -> str:
    return logins.add_browser(db, NewBrowser(user_id=user, way="link", device="", peer=""), until, NOON)[0]


def find(db: Db, token: str, now: int = NOON) -> WebVisitor:
    found = find_visitor(db, token, now)
    assert found is not None
    return found


def test_a_person_sees_one_room_of_their_own(db: Db) -> None:
    visitor = find(db, sign_in(db))
    assert (visitor.user, visitor.room, visitor.called, visitor.names) == (ANN, f"{OWN_ROOM}ann", "Ann", (ANN,))


@pytest.mark.parametrize(
    ("role", "folder", "all_rooms"),
    [(UserRole.OWNER, "", True), (UserRole.OWNER, "acme", False), (UserRole.ADMIN, "", False)],
)
def test_only_an_owner_of_everything_sees_every_room(db: Db, role: UserRole, folder: str, all_rooms: bool) -> None:
    users.add_role(db, ANN, role, folder, "test", NOON)
    assert (find(db, sign_in(db)).room == "") is all_rooms


def test_a_role_that_was_taken_away_is_gone_with_the_next_request(db: Db) -> None:
    users.add_role(db, ANN, UserRole.OWNER, "", "test", NOON)
    token = sign_in(db)
    assert find(db, token).room == ""
    db.run("DELETE FROM user_roles")
    assert find(db, token).room == f"{OWN_ROOM}ann"


def test_neither_an_unknown_cookie_nor_an_old_one_is_anybody(db: Db) -> None:
    token = sign_in(db)
    for wrong in ("", token[:-1], token.swapcase(), logins.issue_once(db, ANN, NOON + 100, NOON)):
        assert find_visitor(db, wrong, NOON) is None
    assert find_visitor(db, token, NOON + 100) is None
    logins.sign_out(db, token)
    assert find_browser_visitor(db, token, NOON) is None


def test_a_visitor_has_the_name_and_the_identities_of_their_person(db: Db) -> None:
    users.add(db, "fake:user/7", "Ann Lee", NOON)
    assert identities.add(db, ANN, "fake:user/7", "test", NOON)
    visitor = find(db, sign_in(db))
    assert visitor.called == "Ann Lee" and set(visitor.names) == {ANN, "fake:user/7"}
    users.add(db, "web:user/bob", "", NOON)
    nameless = find(db, sign_in(db, "web:user/bob"))
    assert nameless.called == "bob"


def test_the_browser_is_told_with_its_visitor(db: Db) -> None:
    token = sign_in(db)
    found = find_browser_visitor(db, token, NOON)
    assert found is not None and found[0].login == found[1].id and found[1].user_id == ANN


def test_a_room_is_direct_only_for_the_one_whose_own_it_is() -> None:
    """What is meant for one person's eyes is not shown in a room where an owner looks in."""
    ann, owner = WebVisitor(ANN, f"{OWN_ROOM}ann"), WebVisitor("web:user/owner", "")
    assert ann.is_direct(f"{OWN_ROOM}ann", MAIN)
    assert not ann.is_direct(f"{OWN_ROOM}bob", MAIN) and not ann.is_direct(MAIN, MAIN)
    assert owner.is_direct(MAIN, MAIN) and owner.is_direct(f"{OWN_ROOM}owner", MAIN)
    assert not owner.is_direct(f"{OWN_ROOM}ann", MAIN)
