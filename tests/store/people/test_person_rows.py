"""Which rows tell of a person, and that every column of the store was thought of."""

import re
from pathlib import Path

from msgspec import structs
from tests.store.conftest import NOON, Desk

from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.people import person_removal, person_rows, users
from gatepost.store.people.person_rows import COLUMNS
from gatepost.store.people.person_scope import FORGOTTEN, PersonScope
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import direct_rooms, origins, rooms, routes
from gatepost.store.rooms.origins import Origin
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState
from gatepost.store.schedule.tasks import NewTask, ScheduleKind
from gatepost.store.sessions import groups

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "schema.sql"
HER, HIM = "fake:user/9", "fake:user/91"

# Tables whose rows go with something of hers: her messages, her turns, her direct rooms, she herself.
ERASED_WITH = {
    "inbox", "origins", "outbox", "steps", "unsearched", "search",  # her messages, and the answers
    "conversations", "timeline", "turns", "calls", "session_tokens", "sessions",  # conversations
    "requests", "request_cards", "request_votes",
    "rooms", "destinations", "direct_rooms", "direct_room_readers", "engagements", "sticky_choices",
    "users", "identities", "user_roles", "group_members", "memberships", "acl",
    "budgets", "spending", "reservations", "reservation_charges", "costs",
    "secrets", "secret_uses", "logins", "passwords", "known_browsers", "api_tokens",
    "passkeys", "pairing_codes", "pairing_guesses",
    "tokens", "newcomers", "session_notes", "tasks", "task_origins", "task_holds", "firings",
    "link_visitors", "room_pins", "threads", "thread_marks",
    "errands", "pinned_rules", "replays", "replay_turns", "wanted_forks",
    "messages", "audit", "passed_files", "session_files", "awaited_files", "memories", "memory_words",
    "memory_vectors",
}  # fmt: skip
# Tables that say nothing of a person: what operators and agents set up, numbers, hashes. A column `…_by` is replaced.
NOT_PERSONAL = {
    "alerts", "audit_anchors", "channel_cursors", "channel_instances", "commands", "connector_tools", "database_lives",
    "duties", "egress_log", "egress_rules", "entrances", "forks", "gateways", "given_files", "grants", "group_moves",
    "group_places", "groups", "incarnations", "instructions", "link_signatures", "prompt_sizes",
    "restored_rows", "routes", "memory_views", "rule_state", "shared_folders",
    "schema_version", "secret_bindings", "skill_adoptions", "skill_contents", "skills",
    "spent_tickets", "switches", "trusted_setups", "uids", "watchers", "web_hosts",
    "web_routes", "worktrees",
}  # fmt: skip


def list_tables() -> dict[str, list[str]]:
    """The text columns of each table."""
    found = {}
    for name, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\) STRICT;", SCHEMA.read_text(), re.DOTALL):
        found[name] = re.findall(r"(?:^|,|\()\s*(\w+) TEXT", body)
    return found


def test_every_table_is_erased_or_known_to_say_nothing_of_people() -> None:
    """A new table belongs to one of the two. If it names people, `store/people/person_removal.py` must know it."""
    tables = {*list_tables(), "search"}
    assert tables - ERASED_WITH - NOT_PERSONAL == set()
    assert tables == ERASED_WITH | NOT_PERSONAL


def test_every_column_that_says_who_did_something_is_replaced() -> None:
    by = {(table, column) for table, columns in list_tables().items() for column in columns if column.endswith("_by")}
    replaced = {*person_removal.NAMED, *((each.table, each.column) for each in COLUMNS)}
    assert by - replaced == set()


def accept(db: Db, number: int, sender: str, address: str = "fake:room/1", **more: str) -> int:
    new = NewMessage(
        instance="fake",
        address=address,
        direction=more.pop("direction", "in"),
        sender=sender,
        text=f"text {number}",
        at=NOON,
        platform_id=f"p{number}",
        **more,
    )
    message_id = messages.accept(db, new, NOON)
    assert message_id is not None
    return message_id


def test_hers_is_what_she_wrote_what_was_passed_on_for_her_and_her_direct_room(db: Db) -> None:
    own, other = accept(db, 1, HER), accept(db, 2, HIM)
    passed_on = accept(db, 3, "agent:home", "agents:acme", kind="agent")
    origins.put(db, passed_on, [Origin(HER, "fake", "fake:room/1")], 1)
    said = accept(db, 4, "agent:home", "fake:dm/9", direction="out")
    scope = PersonScope((HER,), (("fake", "fake:dm/9"),))
    assert [each.id for each in person_rows.list_messages(db, scope, 0, 100)] == [own, passed_on, said]
    assert other not in (own, passed_on, said)


def test_a_direct_room_in_which_somebody_else_wrote_is_not_hers_alone(db: Db) -> None:
    rooms.add(db, "fake", "fake:dm/9", "Ann", True, RoomPolicy.STRICT, NOON)
    direct_rooms.add(db, HER, "fake", "fake:dm/9", NOON)
    accept(db, 1, HER, "fake:dm/9")
    assert not person_rows.has_others(db, (HER,), "fake", "fake:dm/9")
    accept(db, 2, HIM, "fake:dm/9")
    assert person_rows.has_others(db, (HER,), "fake", "fake:dm/9")
    assert not person_rows.has_others(db, (HER, HIM), "fake", "fake:dm/9")


def test_a_turn_that_was_given_a_message_of_hers_loses_its_answers_and_others_keep_theirs(desk: Desk) -> None:
    turn = desk.begun("hello")
    desk.say("k1", "an answer", turn=turn)
    (entry, message), *_ = inbox.list_for_turn(desk.db, turn.id)
    kept = desk.say("k2", "of its own", origin="tool")
    done = person_rows.remove_messages(desk.db, [message.id], 50)
    assert (done.messages, done.answers, done.more) == (1, 1, False)
    assert messages.get(desk.db, kept.message_id) is not None
    assert inbox.get(desk.db, entry.id) is None


def test_answers_go_in_portions_before_the_message_that_leads_to_them(desk: Desk) -> None:
    turn = desk.begun("hello")
    for number in range(5):
        desk.say(f"k{number}", f"answer {number}", turn=turn)
    (_, message), *_ = inbox.list_for_turn(desk.db, turn.id)
    done = [person_rows.remove_messages(desk.db, [message.id], 2) for _ in range(3)]
    assert [(each.messages, each.answers, each.more) for each in done] == [(0, 2, True), (0, 2, True), (1, 1, False)]


def test_rows_of_others_that_name_her_name_nobody_then(db: Db) -> None:
    users.add(db, HER, "Ann", NOON)
    acl.put(db, AclRow(id=0, principal=HIM, action="interact", scope="**", effect=AclEffect.DENY, granted_by=HER), NOON)
    acl.put(db, AclRow(id=0, principal=HER, action="interact", scope="**", effect=AclEffect.ALLOW), NOON)
    assert person_removal.count(db, PersonScope((HER,)))["access_rows"] == 1
    person_removal.remove(db, PersonScope((HER,)))
    (row,) = acl.list_rows(db)
    assert (row.principal, row.granted_by) == (HIM, FORGOTTEN)
    assert users.get(db, HER) is None


def test_routes_about_her_alone_go_and_those_that_name_her_beside_others_are_left_to_the_operator(db: Db) -> None:
    room = "tg:chat/7"
    hers = (f"sender={HER}", f'channel="tg" chat_jid="{room}" verb=mention')
    kept = (f"sender={HER}|{HIM}", f"sender!={HER}", f'text="of sender={HER} here"', f"sender={HIM}", "room=*")
    for number, match in enumerate((*hers, *kept), 1):
        db.run(
            "INSERT INTO routes (seq, match, target, created_by, created_at) VALUES (?, ?, 'drop', 'test', 1)",
            (number, match),
        )
    scope = PersonScope((HER,), (("tg", room),))
    assert person_removal.count(db, scope)["routes"] == 2
    assert person_removal.list_named_routes(db, scope) == [3, 4, 5]
    person_removal.remove(db, scope)
    assert [each.match for each in routes.list_all(db)] == list(kept)
    assert person_removal.list_named_routes(db, scope) == [3, 4, 5] and person_removal.list_own_routes(db, scope) == []


def test_tasks_that_she_made_or_asked_for_or_that_run_in_her_rooms_go_with_their_runs(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    new = NewTask(
        folder="acme", instance="fake", address="fake:room/1", prompt="x", kind=ScheduleKind.EVERY, schedule="1h",
        every=1,
        next_at=1, created_by="agent:acme",
    )  # fmt: skip
    asked = Origin("fake:user/1", "fake", "fake:room/1")
    other = Origin("fake:user/2", "fake", "fake:room/1")
    hers = [
        tasks.add(db, structs.replace(new, created_by="fake:user/1"), (), 0, 1),
        tasks.add(db, new, (other, asked), 0, 1),
        tasks.add(db, structs.replace(new, address="fake:dm/1"), (), 0, 1),
    ]
    stays = tasks.add(db, new, (other,), 0, 1)
    for each in (*hers, stays):
        firings.add(db, each.id, 1, 1, FiringState.SILENT)
    scope = PersonScope(names=("fake:user/1",), rooms=(("fake", "fake:dm/1"),))
    assert person_removal.count(db, scope)["tasks"] == 3
    person_removal.remove(db, scope)
    assert [each.id for each in tasks.list_page(db, None, "", 10)] == [stays.id]
    row = db.row("SELECT COUNT(*) FROM firings")
    assert row is not None and row[0] == 1
