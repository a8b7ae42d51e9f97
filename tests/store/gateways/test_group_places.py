"""Where groups lie, if several gateways share a store and each has folders of its own."""

import pytest
from tests.store.conftest import Desk
from tests.store.gateways.test_gateways import NOON, begin

from gatepost.core.clock import SECOND
from gatepost.core.errors import SetupError
from gatepost.store.gateways import gateways, group_moves, group_places, shared_folders
from gatepost.store.gateways.group_places import AwayWorld, WaitingRoom
from gatepost.store.gateways.shared_folders import GroupPlace
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.money import ledger
from gatepost.store.sessions import groups


def test_a_world_lies_where_it_was_claimed_first_with_all_below_it(desk: Desk) -> None:
    assert group_places.find_gateway(desk.db, "acme") == ""
    assert group_places.claim(desk.db, "acme/sales", "a", NOON) == "a"
    assert [group_places.claim(desk.db, each, "b", NOON) for each in ("acme", "acme/leads", "other")] == ["a", "a", "b"]
    assert group_places.list_all(desk.db) == {"acme": "a", "other": "b"}


def test_a_world_lies_nowhere_once_its_last_group_is_removed(desk: Desk) -> None:
    groups.add(desk.db, "acme/sales", "Sales", "", NOON)
    group_places.claim(desk.db, "acme", "a", NOON)
    groups.remove(desk.db, "acme/sales")
    assert group_places.find_gateway(desk.db, "acme") == "a"
    groups.remove(desk.db, "acme")
    assert group_places.find_gateway(desk.db, "acme") == ""


@pytest.mark.parametrize("leaves", [True, False])
def test_a_world_is_away_while_its_gateway_is_gone(desk: Desk, leaves: bool) -> None:
    epoch = begin(desk.db, "a")
    group_places.claim(desk.db, "acme", "a", NOON)
    assert group_places.list_away(desk.db) == []
    if leaves:
        gateways.set_state(desk.db, "a", epoch, gateways.GatewayState.GONE)
    else:
        gateways.end_life(desk.db, "a", epoch)
    assert group_places.list_away(desk.db) == [AwayWorld("acme", "a", 1 if leaves else 2)]
    begin(desk.db, "a")
    assert group_places.list_away(desk.db) == []


def test_the_world_of_a_forgotten_gateway_is_away(desk: Desk) -> None:
    group_places.claim(desk.db, "acme", "a", NOON)
    assert group_places.list_away(desk.db) == [AwayWorld("acme", "a", 0)]


def test_each_room_waits_once_in_its_last_thread(desk: Desk) -> None:
    for thread in ("t1", "t2"):
        desk.hear(thread=thread)
    desk.hear(address="fake:room/2")
    done = desk.hear(address="fake:room/3")
    inbox.set_state(desk.db, done, InboxState.ANSWERED, "", None, desk.now)
    assert group_places.list_waiting_rooms(desk.db, "acme", NOON - 1) == []
    found = group_places.list_waiting_rooms(desk.db, "acme", NOON)
    assert found == [WaitingRoom("fake", "fake:room/1", "t2"), WaitingRoom("fake", "fake:room/2", "")]
    assert group_places.list_waiting_rooms(desk.db, "acm", NOON) == []


def test_what_waits_for_a_gateway_that_is_away_is_not_overdue(desk: Desk) -> None:
    row = desk.hear()
    late = desk.now + 3600 * SECOND
    assert ledger.check(desk.db, late).overdue == 1
    assert group_places.defer_due(desk.db, "other", late, late + SECOND) == 0
    assert group_places.defer_due(desk.db, "acme", late, late + SECOND) == 1
    assert ledger.check(desk.db, late).overdue == 0
    assert desk.entry(row).next_at == late + SECOND


def test_a_group_at_the_top_that_no_gateway_has_is_away_too(desk: Desk) -> None:
    for folder in ("acme", "acme/sales", "other"):
        groups.add(desk.db, folder, folder, "", NOON)
    assert group_places.list_away(desk.db) == [AwayWorld("acme", "", 0), AwayWorld("other", "", 0)]
    assert group_places.has_groups(desk.db, "acme/new") and not group_places.has_groups(desk.db, "acm")


def test_a_home_with_another_name_takes_its_worlds_along(desk: Desk) -> None:
    epoch = begin(desk.db, "old", home="one home")
    begin(desk.db, "b")
    for world, gateway in (("acme", "old"), ("other", "b")):
        group_places.claim(desk.db, world, gateway, NOON)
    group_moves.add(desk.db, "other", "b", "old", NOON)
    gateways.set_state(desk.db, "old", epoch, gateways.GatewayState.GONE)
    begin(desk.db, "new", home="one home")
    assert group_places.claim_for_home(desk.db, "one home", "new", NOON) == ["old"]
    assert group_places.list_all(desk.db) == {"acme": "new", "other": "b"}
    assert desk.db.rows("SELECT source, target FROM group_moves") == [("b", "new")]
    assert group_places.claim_for_home(desk.db, "home of b", "b", NOON) == []


def test_a_copy_of_a_home_takes_nothing_from_a_gateway_that_lives(desk: Desk) -> None:
    begin(desk.db, "old", home="one home")
    group_places.claim(desk.db, "acme", "old", NOON)
    with pytest.raises(SetupError, match=r"'old' on host lives and has the same home .* remove the file gateway-id"):
        begin(desk.db, "new", NOON + 1, home="one home")
    assert group_places.claim_for_home(desk.db, "one home", "new", NOON + 1) == []
    assert group_places.list_all(desk.db) == {"acme": "old"}
    late = NOON + 60 * SECOND
    begin(desk.db, "new", late, home="one home")
    group_places.claim_for_home(desk.db, "one home", "new", late)
    assert group_places.list_all(desk.db) == {"acme": "new"}
    found = gateways.get(desk.db, "old")
    assert found is not None and found.state is gateways.GatewayState.GONE  # what it still writes is refused


def test_no_group_waits_for_a_gateway_while_all_lie_in_a_shared_folder(desk: Desk) -> None:
    groups.add(desk.db, "other", "Other", "", NOON)
    group_places.claim(desk.db, "other", "gone long ago", NOON)
    shared_folders.set_kind(desk.db, "a", GroupPlace.SHARED, NOON)
    shared_folders.find_or_add(desk.db, "mark", "a", NOON)
    assert group_places.list_away(desk.db) == []
    shared_folders.set_kind(desk.db, "a", GroupPlace.LOCAL, NOON + 1)
    assert [each.world for each in group_places.list_away(desk.db)] == ["other", "acme"]
    assert group_places.render_wait("") == "waits for its files, which no gateway has"
