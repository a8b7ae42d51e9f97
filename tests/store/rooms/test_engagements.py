"""Engagements as rows: one for each group of a room and thread."""

from tests.store.conftest import NOON

from gatepost.core.clock import DAY, SECOND
from gatepost.core.records import replace
from gatepost.store.people import person_removal
from gatepost.store.people.person_scope import PersonScope
from gatepost.store.port import Db
from gatepost.store.rooms import engagements, routes
from gatepost.store.rooms.engagements import KEPT, MOST_REMOVED, Engagement, StickyChoice
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups

PLACE = ("fake", "fake:room/1", "")
TTL = 600 * SECOND
NEW = Engagement(*PLACE, "acme", None, NOON + TTL, TTL, NOON)


def list_untils(db: Db) -> list[int | None]:
    return [each.until for each in engagements.list_at(db, *PLACE)]


def test_a_group_is_engaged_once_in_a_place_and_the_last_word_counts(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    engagements.put(db, NEW)
    engagements.put(db, replace(NEW, until=None, ttl=0))
    assert list_untils(db) == [None]
    assert engagements.list_at(db, "fake", "fake:room/1", "T") == []


def test_a_reply_extends_what_was_on_when_its_turn_began_even_if_it_comes_late(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    engagements.put(db, NEW)
    late = NOON + 2 * TTL
    assert engagements.extend(db, *PLACE, "acme", NOON + TTL, late)
    assert list_untils(db) == [late + TTL]
    assert not engagements.extend(db, *PLACE, "acme", late + TTL + 1, late + 2 * TTL)
    assert not engagements.extend(db, *PLACE, "other", NOON, late)
    engagements.put(db, replace(NEW, until=None, ttl=0))
    assert not engagements.extend(db, *PLACE, "acme", NOON, late)


def test_it_ends_with_its_route_and_with_its_group(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    route = routes.add(db, Route(match="", target="acme", created_by="test", created_at=NOON, folder="acme"))
    engagements.put(db, replace(NEW, route_id=route.id))
    routes.remove(db, route.id)
    assert list_untils(db) == []
    engagements.put(db, NEW)
    groups.remove(db, "acme")
    assert list_untils(db) == []


def test_what_ended_long_ago_is_removed_some_at_a_time(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    for number in range(MOST_REMOVED + 5):
        engagements.put(db, replace(NEW, thread=f"t{number}"))
    engagements.put(db, replace(NEW, until=None, ttl=0))
    assert engagements.remove_over(db, NOON + DAY) == 0
    later = NOON + TTL + KEPT + 1
    assert [engagements.remove_over(db, later) for _ in range(3)] == [MOST_REMOVED, 5, 0]
    assert list_untils(db) == [None]


def test_whoever_is_forgotten_leaves_no_choice_and_no_engagement_of_her_direct_room(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    engagements.put(db, NEW)
    for sender in ("fake:user/9", "fake:user/91"):
        engagements.put_choice(db, StickyChoice(*PLACE, sender, folder="acme"))
    person_removal.remove(db, PersonScope(("fake:user/9",), (PLACE[:2],)))
    assert list_untils(db) == []
    assert engagements.get_choice(db, *PLACE, "fake:user/9") is None
    assert engagements.get_choice(db, *PLACE, "fake:user/91") is not None


def test_a_choice_of_nothing_is_none(db: Db) -> None:
    chosen = StickyChoice(*PLACE, "fake:user/9", folder="acme", topic="daily")
    engagements.put_choice(db, chosen)
    engagements.put_choice(db, replace(chosen, folder=""))
    assert engagements.get_choice(db, *PLACE, "fake:user/9") == replace(chosen, folder="")
    engagements.put_choice(db, replace(chosen, folder="", topic=""))
    assert not engagements.has_any_choice(db)
