"""People: what they are where, and never twice."""

import pytest

from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost_testing.store_errors import INTEGRITY_ERRORS


def test_somebody_nobody_knows_is_unknown(db: Db) -> None:
    assert not users.get_roles(db, "fake:user/1").known


@pytest.mark.parametrize("folder", ["", "acme"])
def test_nanoclaw_d14_a_role_cannot_be_given_twice_not_even_everywhere(db: Db, folder: str) -> None:
    users.add(db, "fake:user/1", "Ann", 1)
    assert users.add_role(db, "fake:user/1", UserRole.ADMIN, folder, "owner", 1)
    assert not users.add_role(db, "fake:user/1", UserRole.ADMIN, folder, "owner", 2)
    with pytest.raises(INTEGRITY_ERRORS):
        db.run("INSERT INTO user_roles VALUES ('fake:user/1', 'admin', ?, 'x', 3)", (folder,))
    assert users.get_roles(db, "fake:user/1").roles == (("admin", folder),)


def test_a_role_cannot_be_without_a_place(db: Db) -> None:
    users.add(db, "fake:user/1", "Ann", 1)
    with pytest.raises(INTEGRITY_ERRORS):
        db.run("INSERT INTO user_roles VALUES ('fake:user/1', 'owner', NULL, 'x', 3)")


def test_a_standing_holds_roles_and_memberships(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    users.add(db, "fake:user/1", "Ann", 1)
    users.add(db, "fake:user/1", "Another name", 2)
    users.add_role(db, "fake:user/1", UserRole.OWNER, "", "x", 1)
    users.add_member(db, "fake:user/1", "acme", "x", 1)
    assert users.get_roles(db, "fake:user/1") == users.SenderRoles(True, (("owner", ""),), ("acme",))
    assert users.list_owners(db) == ["fake:user/1"]
    assert (users.get(db, "fake:user/1") or pytest.fail("gone")).name == "Ann"


def test_a_ghost_gets_no_role_and_no_membership(db: Db) -> None:
    users.add(db, "fake:user/1", "Ann", 1)
    with pytest.raises(INTEGRITY_ERRORS):
        users.add_role(db, "fake:user/2", UserRole.ADMIN, "", "x", 1)
    with pytest.raises(INTEGRITY_ERRORS):
        users.add_member(db, "fake:user/1", "nowhere", "x", 1)
