"""Who is asked first: the nearest who may decide and can be reached."""

from gatepost.access.approvers import RoleHolder, choose_next, rank_approvers
from gatepost.store.people.users import UserRole
from gatepost.store.rooms.direct_rooms import DirectRoom

ADMIN, OWNER = UserRole.ADMIN, UserRole.OWNER
HOLDERS = [
    RoleHolder("owner", OWNER, ""),
    RoleHolder("everywhere", ADMIN, ""),
    RoleHolder("above", ADMIN, "acme"),
    RoleHolder("near", ADMIN, "acme/eng"),
    RoleHolder("beside", ADMIN, "acme/engine"),
    RoleHolder("below", ADMIN, "acme/eng/web"),
]


def room(user: str, instance: str = "fake", seen: int = 1) -> DirectRoom:
    return DirectRoom(user, instance, f"{instance}:direct/{user}", seen)


def test_admins_of_the_group_come_before_those_above_and_owners_last() -> None:
    assert rank_approvers(HOLDERS, "acme/eng") == ["near", "above", "everywhere", "owner"]


def test_who_holds_several_roles_is_asked_once_by_the_nearest() -> None:
    assert rank_approvers([*HOLDERS, RoleHolder("owner", ADMIN, "acme/eng")], "acme/eng") == [
        "near",
        "owner",
        "above",
        "everywhere",
    ]


def test_a_group_that_only_begins_alike_is_another_group() -> None:
    assert rank_approvers(HOLDERS, "acme/engine") == ["beside", "above", "everywhere", "owner"]


def test_the_next_is_the_first_who_was_not_asked_and_can_be_reached() -> None:
    ranked, rooms = ["a", "b", "c"], [room("b"), room("c")]
    assert choose_next(ranked, (), rooms, "fake") == ("b", room("b"))
    assert choose_next(ranked, ("b",), rooms, "fake") == ("c", room("c"))
    assert choose_next(ranked, ("b", "c"), rooms, "fake") is None


def test_somebody_is_asked_on_the_channel_that_the_request_came_from() -> None:
    rooms = [room("a", "web", 9), room("a", "fake", 1)]
    assert choose_next(["a"], (), rooms, "fake") == ("a", rooms[1])
    assert choose_next(["a"], (), rooms, "mail") == ("a", rooms[0])
