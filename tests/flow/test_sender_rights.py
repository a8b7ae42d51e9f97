"""The rights of a sender are those of the person, by each of their identities."""

import pytest

from gatepost.flow.sender_rights import find_rights
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.sessions import groups

NOON = 1_800_000_000_000_000
ANN, CHAT = "fake:user/ann", "chat:user/7"


@pytest.fixture(autouse=True)
def ann(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    users.add(db, ANN, "Ann", NOON)
    users.add_member(db, ANN, "acme", "test", NOON)
    identities.add(db, CHAT, ANN, "test", NOON)


def put_row(db: Db, principal: str, action: str, effect: AclEffect = AclEffect.ALLOW) -> None:
    acl.put(db, AclRow(id=0, principal=principal, action=action, scope="acme", effect=effect), NOON)


@pytest.mark.parametrize("sender", [ANN, CHAT])
def test_a_membership_counts_by_each_identity(db: Db, sender: str) -> None:
    assert find_rights(db, sender, "acme") == "member"
    assert find_rights(db, sender, "other") == "guest"


@pytest.mark.parametrize("sender", [ANN, CHAT])
@pytest.mark.parametrize("named", [ANN, CHAT])
def test_a_row_about_one_identity_counts_for_all(db: Db, sender: str, named: str) -> None:
    put_row(db, named, "admin")
    assert find_rights(db, sender, "acme") == "admin"


@pytest.mark.parametrize("sender", [ANN, CHAT])
@pytest.mark.parametrize("named", [ANN, CHAT, "chat:**"])
def test_a_denial_of_one_identity_binds_all(db: Db, sender: str, named: str) -> None:
    put_row(db, ANN, "admin")
    put_row(db, named, "interact", AclEffect.DENY)
    assert find_rights(db, sender, "acme") is None


def test_nothing_is_left_to_an_identity_that_is_unpaired(db: Db) -> None:
    users.add_role(db, ANN, UserRole.OWNER, "", "test", NOON)
    assert find_rights(db, CHAT, "acme") == "owner"
    identities.remove(db, CHAT)
    assert find_rights(db, CHAT, "acme") == "guest"
