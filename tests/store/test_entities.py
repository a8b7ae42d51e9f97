"""Groups, rooms, routes and destinations: what the database itself refuses."""

import pytest

from gatepost.store.messages import destinations
from gatepost.store.port import Db
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups
from gatepost_testing.store_errors import INTEGRITY_ERRORS


def add_route(db: Db, seq: int, folder: str | None, target: str = "acme") -> int:
    given = routes.Route(seq=seq, match="platform=fake", target=target, folder=folder, created_by="test", created_at=1)
    return routes.add(db, given).id


def test_a_group_is_added_once_and_changed_by_name(db: Db) -> None:
    assert groups.add(db, "acme", "Acme", "demo", 1)
    assert not groups.add(db, "acme", "Other", "", 2)
    assert groups.update(db, "acme", {"name": "ACME", "open": 0, "window_chars": 100, "options": {"effort": "high"}})
    group = groups.get(db, "acme")
    assert group is not None
    assert (group.name, group.open, group.window_chars, group.options) == ("ACME", False, 100, {"effort": "high"})
    assert groups.update(db, "acme", {"options": {"effort": None}})
    assert (groups.get(db, "acme") or group).options == {}
    assert not groups.update(db, "nowhere", {"name": "x"})


def test_a_groups_limits_are_set_one_by_one_and_taken_back(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    groups.add(db, "acme/eng/ada", "Ada", "", 1)
    groups.update(db, "acme", {"limits": {"memory_mb": 512, "turn_s": 60}})
    groups.update(db, "acme", {"limits": {"turn_s": None, "processes": 64}})
    groups.update(db, "acme", {"mounts": ["/srv/books:books"]})

    (acme,) = groups.list_ancestors(db, "acme/eng/ada")
    assert (acme.limits, acme.mounts) == ({"memory_mb": 512, "processes": 64}, ("/srv/books:books",))


def test_what_belongs_to_a_group_goes_with_it(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    route = add_route(db, 1, "acme")
    destinations.add_room(db, "acme", "ops", "fake", "fake:1", "", 1)
    assert groups.remove(db, "acme") and not groups.remove(db, "acme")
    assert routes.get(db, route) is None and destinations.list_for_group(db, "acme") == []


def test_a_route_to_a_ghost_is_refused(db: Db) -> None:
    with pytest.raises(INTEGRITY_ERRORS):
        add_route(db, 1, "ghost")


def test_routes_stand_in_the_order_of_seq_then_id(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    late, first, second = add_route(db, 9, "acme"), add_route(db, 1, "acme"), add_route(db, 1, None, "drop")
    assert [route.id for route in routes.list_all(db)] == [first, second, late]
    assert routes.remove(db, first) and not routes.remove(db, first)


def test_two_bots_see_one_chat_as_two_rooms(db: Db) -> None:
    one = rooms.add(db, "bot-1", "fake:1", "Ops", False, RoomPolicy.STRICT, 1)
    two = rooms.add(db, "bot-2", "fake:1", "Ops", False, RoomPolicy.PUBLIC, 1)
    assert one.id != two.id
    assert rooms.add(db, "bot-1", "fake:1", "Renamed", False, RoomPolicy.PUBLIC, 2) == one
    assert rooms.list_instances(db, "fake:1") == ["bot-1", "bot-2"]
    assert rooms.set_policy(db, "bot-1", "fake:1", RoomPolicy.PUBLIC)


def test_a_destinations_name_leads_to_one_place(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    destinations.add_room(db, "acme", "ops", "fake", "fake:1", "t", 1)
    destinations.add_group(db, "acme", "ops", "acme/eng", 2)
    (found,) = destinations.list_for_group(db, "acme")
    assert (found.kind, found.address, found.thread, found.target_folder) == ("group", "", "", "acme/eng")
