"""Who may speak to whom."""

import pytest

from gatepost.access.senders import check_sender, is_program, rights_by_acl, rights_of
from gatepost.messages.inbound import is_person
from gatepost.store.people.users import SenderRoles
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms.rooms import RoomPolicy

STRANGER = SenderRoles(known=False)
OWNER = SenderRoles(True, (("owner", ""),))
WORLD_ADMIN = SenderRoles(True, (("admin", "acme"),))
MEMBER = SenderRoles(True, (), ("acme",))
KNOWN = SenderRoles(True)


@pytest.mark.parametrize(
    ("sender_roles", "folder", "rights"),
    [
        (STRANGER, "acme", "guest"),
        (KNOWN, "acme", "guest"),
        (OWNER, "acme/eng", "owner"),
        (WORLD_ADMIN, "acme", "admin"),
        (WORLD_ADMIN, "acme/eng", "admin"),
        (WORLD_ADMIN, "acmeleaks", "guest"),
        (WORLD_ADMIN, "", "guest"),
        (MEMBER, "acme", "member"),
        (MEMBER, "acme/eng", "guest"),
    ],
)
def test_a_role_holds_for_all_below_and_a_membership_for_one_group(
    sender_roles: SenderRoles, folder: str, rights: str
) -> None:
    assert rights_of(sender_roles, folder) == rights


def test_a_strict_room_lets_in_those_who_belong() -> None:
    assert [check_sender(RoomPolicy.STRICT, rights).allowed for rights in ("owner", "admin", "member", "guest")] == [
        True,
        True,
        True,
        False,
    ]
    assert check_sender(RoomPolicy.STRICT, "guest").reason == "unknown_sender_strict"


def test_a_room_that_asks_for_approval_is_closed_until_somebody_can_be_asked() -> None:
    assert not check_sender(RoomPolicy.REQUEST_APPROVAL, "guest").allowed
    assert check_sender(RoomPolicy.REQUEST_APPROVAL, "guest").reason == "unknown_sender_request_approval"


def test_a_public_room_is_open_and_an_unreadable_policy_is_not() -> None:
    assert check_sender(RoomPolicy.PUBLIC, "guest").allowed
    assert not check_sender("pubic", "guest").allowed


def test_root_is_for_owners_whatever_the_room_says() -> None:
    assert check_sender(RoomPolicy.PUBLIC, "owner", "root").allowed
    assert check_sender(RoomPolicy.PUBLIC, "admin", "root").reason == "root_is_for_owners"


def test_agents_and_the_gateway_are_no_people() -> None:
    assert is_person("telegram:user/9")
    assert not is_person("agent:acme")
    assert not is_person("gatepost:system")


def test_rows_of_the_access_list_raise_a_senders_rights_or_shut_them_out() -> None:
    who = frozenset(["tg:user/9", "role:ops"])
    lets_in = AclRow(id=1, principal="tg:user/9", action="interact", scope="acme/**")
    raises = AclRow(id=2, principal="role:ops", action="admin", scope="acme/eng")
    shuts_out = AclRow(id=3, principal="role:ops", action="interact", scope="acme/eng", effect=AclEffect.DENY)

    assert rights_by_acl("guest", [lets_in], who, "acme/eng") == "member"
    assert rights_by_acl("guest", [lets_in], who, "other") == "guest"
    assert rights_by_acl("guest", [lets_in, raises], who, "acme/eng") == "admin"
    assert rights_by_acl("member", [lets_in, raises, shuts_out], who, "acme/eng") is None
    assert rights_by_acl("owner", [shuts_out], who, "acme/eng") == "owner"


@pytest.mark.parametrize(
    ("sender", "program"),
    [
        ("discord:bot/7", True),
        ("slack:T1/bot/B2", True),
        ("mattermost:webhook/x", True),
        ("mattermost:chat.example/webhook/x", True),
        ("discord:user/7", False),
        ("telegram:user/bot", False),
        ("terminal:bot", False),
        ("email:bot@example.com", False),
    ],
)
def test_a_program_is_known_by_what_its_channel_calls_it(sender: str, program: bool) -> None:
    assert is_program(sender) is program
