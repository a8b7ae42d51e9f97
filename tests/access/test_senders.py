"""Who may speak to whom."""

import pytest

from gatepost.access.senders import is_person, may_speak, rights_by_rows, rights_of
from gatepost.store.acl import Effect, Row
from gatepost.store.users import Standing

STRANGER = Standing(known=False)
OWNER = Standing(True, (("owner", ""),))
WORLD_ADMIN = Standing(True, (("admin", "acme"),))
MEMBER = Standing(True, (), ("acme",))
KNOWN = Standing(True)


@pytest.mark.parametrize(
    ("standing", "folder", "rights"),
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
    standing: Standing, folder: str, rights: str
) -> None:
    assert rights_of(standing, folder) == rights


def test_a_strict_room_lets_in_those_who_belong() -> None:
    assert [may_speak("strict", rights).allowed for rights in ("owner", "admin", "member", "guest")] == [
        True,
        True,
        True,
        False,
    ]
    assert may_speak("strict", "guest").reason == "unknown_sender_strict"


def test_a_room_that_asks_for_approval_is_closed_until_somebody_can_be_asked() -> None:
    assert not may_speak("request_approval", "guest").allowed
    assert may_speak("request_approval", "guest").reason == "unknown_sender_request_approval"


def test_a_public_room_is_open_and_an_unreadable_policy_is_not() -> None:
    assert may_speak("public", "guest").allowed
    assert not may_speak("pubic", "guest").allowed


def test_root_is_for_owners_whatever_the_room_says() -> None:
    assert may_speak("public", "owner", "root").allowed
    assert may_speak("public", "admin", "root").reason == "root_is_for_owners"


def test_agents_and_the_gateway_are_no_people() -> None:
    assert is_person("telegram:user/9")
    assert not is_person("agent:acme")
    assert not is_person("gatepost:system")


def test_rows_of_the_access_list_raise_a_senders_rights_or_shut_them_out() -> None:
    who = frozenset(["tg:user/9", "role:ops"])
    lets_in = Row(id=1, principal="tg:user/9", action="interact", scope="acme/**")
    raises = Row(id=2, principal="role:ops", action="admin", scope="acme/eng")
    shuts_out = Row(id=3, principal="role:ops", action="interact", scope="acme/eng", effect=Effect.DENY)

    assert rights_by_rows("guest", [lets_in], who, "acme/eng") == "member"
    assert rights_by_rows("guest", [lets_in], who, "other") == "guest"
    assert rights_by_rows("guest", [lets_in, raises], who, "acme/eng") == "admin"
    assert rights_by_rows("member", [lets_in, raises, shuts_out], who, "acme/eng") is None
    assert rights_by_rows("owner", [shuts_out], who, "acme/eng") == "owner"
