"""Pinned rules, as an agent is told them."""

from gatepost.flow.sessions.runner.runner_welcome import render_pinned_rules
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import person_removal
from gatepost.store.people.person_scope import PersonScope
from gatepost.store.port import Db
from gatepost.store.sessions import groups, pinned_rules, sessions
from gatepost.store.sessions.pinned_rules import PinnedRule
from gatepost.store.sessions.sessions import Session, SessionMode

RULES = [
    PinnedRule(1, "home", "", "Be brief.\nAlways.", "operator", 1),
    PinnedRule(2, "home", "fake:room/1", "No prices.", "operator", 1),
    PinnedRule(3, "home", "fake:room/2", "In French.", "operator", 1),
]


def _make_session(db: Db, mode: SessionMode) -> Session:
    groups.add(db, "home", "home", "", 1)
    return sessions.find_or_add(db, mode, "home", "fake", "fake:room/1", "", 1)


async def test_a_conversation_has_the_rules_of_its_group_and_of_its_room(store: SqliteStore) -> None:
    session = await store.write(_make_session, SessionMode.PER_THREAD)
    assert render_pinned_rules(session, RULES) == "- Be brief.\n  Always.\n- No prices."
    assert render_pinned_rules(session, []) == ""


async def test_a_conversation_that_spans_rooms_has_the_rules_of_each_by_its_name(store: SqliteStore) -> None:
    session = await store.write(_make_session, SessionMode.AGENT_SHARED)
    assert render_pinned_rules(session, RULES).splitlines()[-1] == "- In fake:room/2: In French."


async def test_rules_go_with_their_group_and_with_the_direct_room_of_whoever_is_forgotten(store: SqliteStore) -> None:
    await store.write(_make_session, SessionMode.PER_THREAD)
    await store.write(pinned_rules.add, "home", "fake:user/9", "She is deaf.", "fake:user/9", 1)
    await store.write(pinned_rules.add, "home", "", "Be brief.", "fake:user/9", 1)
    scope = PersonScope(names=("fake:user/9",), rooms=(("fake", "fake:user/9"),))
    assert (await store.read(person_removal.count, scope))["pinned rules"] == 1
    await store.write(person_removal.remove, scope)

    (left,) = await store.read(pinned_rules.list_all)
    assert left.text == "Be brief." and "9" not in left.added_by
    await store.write(groups.remove, "home")
    assert await store.read(pinned_rules.list_all) == []
