"""How SQLite finds the rows of what is asked all the time: by an index that leads to what is wanted, never by reading a
table, a session or a room that grows."""

import re
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from gatepost.messages.inbound import Direction
from gatepost.store.engine.sqlite_db import SqliteDb
from gatepost.store.messages import destinations, inbox, mailbox_rows, messages, outbox
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.money import costs, ledger
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests, waiting_requests
from gatepost.store.sessions import (
    agents,
    due_sessions,
    errands,
    forks,
    session_files,
    sessions,
    sleeping_turns,
    timeline,
    turn_claims,
    turns,
)

pytestmark = pytest.mark.sqlite(reason="reads the plans of SQLite")

GROWING = ("messages", "inbox", "outbox", "turns", "steps", "audit", "timeline", "costs", "requests", "sessions")
# Partial indexes whose rows are few, however old the store: reading one whole is no scan.
FEW = ("inbox_open", "inbox_open_session", "outbox_open", "turns_open", "permissions_pending")
# Reads all that a session or a room has.
WHOLE = re.compile(
    r"inbox_seq \(session_id=\?\)|turns_session \(session_id=\?\)|outbox_session \(session_id=\?\)"
    r"|messages_\w+ \(instance=\? AND address=\?\)|messages_\w+ \(instance=\?\)"
    r"|sqlite_autoindex_permissions_\d \(session_id=\?\)|sqlite_autoindex_timeline_\d \(session_id=\?\)"
)
ORDERED = re.compile(
    r"ORDER BY \S+( DESC)? LIMIT|SELECT (COALESCE\()?MAX\("
)  # read from one end, as far as it is asked

Ask = Callable[[Db], Any]

ASKED: dict[str, Ask] = {
    "has_work": lambda db: due_sessions.has_work(db, "s", 1),
    "looked_at": lambda db: due_sessions.defer_session_due(db, "s", 1),
    "cancel_waiting": lambda db: inbox.cancel_waiting(db, "s", "", 1),
    "to_project": lambda db: mailbox_rows.list_to_project(db, "s", mailbox_rows.ProjectionLimits(20, 4000, 20, 4000)),
    "context_shown": lambda db: mailbox_rows.mark_context_shown(db, "s", "t"),
    "of_turn": lambda db: inbox.list_for_turn(db, "t"),
    "senders_of_turn": lambda db: inbox.list_senders(db, "t"),
    "of_message": lambda db: inbox.list_for_message(db, 1),
    "costs_of_turns": lambda db: costs.sum_for_turns(db, "s", 1),
    "requests_of_turns": lambda db: requests.list_for_turns(db, "s", ["t"], 5),
    "forks_of_session": lambda db: forks.list_children(db, "s", 5),
    "retry_failed": lambda db: inbox.retry_failed(db, 1, "member", 1),
    "retry_ended": lambda db: outbox.retry_ended(db, 1, 1),
    "sessions_with_work": lambda db: due_sessions.list_sessions_with_work(db, 1),
    "sessions_with_work_of_a_gateway": lambda db: due_sessions.list_sessions_with_work(db, 1, "a"),
    "sessions_waiting": due_sessions.list_waiting_sessions,
    "rooms_waiting": inbox.list_waiting_rooms,
    "ended_runs": lambda db: errands.list_ended_runs(db, 50),
    "wanted_forks": lambda db: forks.list_wanted(db, 20),
    "next_due": due_sessions.get_next_due,
    "keep_waiting": lambda db: due_sessions.defer_all_due(db, 1, 2),
    "claim": lambda db: turn_claims.claim(db, "s", "scripted", "o", 1, 1, 10),
    "open_of": lambda db: turns.find_open(db, "s"),
    "open_turns": turns.list_open,
    "renew": lambda db: turns.renew_lease(db, "t", 1, 1, 1),
    "prompts_waiting": lambda db: agents.count_waiting(db, "s"),
    "by_seq": lambda db: messages.find_by_seq(db, "s", 1),
    "find": lambda db: messages.find(db, "i", "a", Direction.IN, "p"),
    "latest_in_room": lambda db: messages.list_latest_in_room(db, "i", "a", None, 10),
    "in_room_after": lambda db: messages.list_in_room(db, "i", "a", 1, 10),
    "learn_platform_id": lambda db: messages.set_platform_id(db, 1, "p"),
    "lanes": outbox.list_pending_rooms,
    "stuck": outbox.list_stuck,
    "files_of_session": lambda db: session_files.load(db, "s"),
    "files_of_fork": lambda db: session_files.inherit(db, "s", "t"),
    "head": lambda db: outbox.get_head(db, "i", "a"),
    "take": lambda db: outbox.claim_head(db, "i", "a", "o", 1, 1),
    "outbox_looked_at": lambda db: outbox.defer_overdue(db, 1, 1),
    "last_of_people": lambda db: inbox.find_last_of_people(db, "t"),
    "has_effect": lambda db: outbox.has_effect(db, "k", "t", "fake", "fake:room/1", "hello"),
    "claimable": lambda db: turn_claims.find_claimable(db, "s", "scripted", 1, 20),
    "finish": lambda db: turns.finish(db, "t", 1, "{}", 1),
    "by_tools": lambda db: outbox.count_by_tools(db, "s", None),
    "by_tools_in_turn": lambda db: outbox.count_by_tools(db, "s", "t"),
    "withdraw_results": lambda db: outbox.cancel_results(db, "t", "", 1),
    "give_way": lambda db: outbox.supersede_edits(db, "t", EffectOrigin.STATUS, 1),
    "said_in_turn": lambda db: outbox.list_texts_in_turn(db, "t", "i", "a", "x", 1),
    "has_done_any": lambda db: outbox.has_done_any(db, "t"),
    "done_in_turn": lambda db: outbox.list_done_in_turn(db, "t", 10, 10),
    "answered_in_turn": lambda db: outbox.answered_in_turn(db, "t"),
    "session_by_key": lambda db: sessions.find_by_key(db, "k"),
    "watching": lambda db: sessions.list_open(db, "g", 10),
    "audit_append": lambda db: audit.append(db, audit.AuditRecord(1, "a", "b", "c", {})),
    "timeline_last": lambda db: timeline.list_last(db, "s", 10),
    "permissions_of_session": lambda db: waiting_requests.list_pending(db, "s"),
    "all_requests_waiting": lambda db: waiting_requests.list_waiting(db, None, 10),
    "permissions_waiting": lambda db: waiting_requests.count_waiting(db, "s"),
    "requests_in_group": lambda db: waiting_requests.count_waiting_in_group(db, "g"),
    "requests_undelivered": lambda db: sleeping_turns.list_undelivered(db, "s"),
    "requests_over": lambda db: requests.withdraw_for_turn(db, "s", "t", "", 1),
    "destination_of_room": lambda db: destinations.find_by_room(db, "g", "i", "a"),
    "payer": lambda db: costs.find_payer(db, "t"),
    "idle_errand_sessions": lambda db: errands.list_idle_sessions(db, errands.IdleLimits(2, 1), 10),
    "finished_errands": lambda db: errands.list_finished(db, None, 10),
    "wanted_fork": lambda db: forks.is_wanted(db, 1),
    "bring_near": lambda db: ledger.reset_due_times(db, 1),
}


@pytest.mark.parametrize("asked", ASKED)
def test_stranger_23_what_is_asked_all_the_time_reads_no_growing_table(db: SqliteDb, asked: str) -> None:
    seen: list[str] = []
    db.connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: seen.append(event["sql"]))
    ASKED[asked](db)
    db.connection.trace_v2(0, None)

    assert [bad for sql in seen for bad in _reads_too_much(db, sql)] == []


@pytest.mark.parametrize("table", ["messages", "sessions", "turns"])
def test_stranger_23_removing_a_row_reads_no_growing_table(db: SqliteDb, table: str) -> None:
    assert _reads_too_much(db, f"DELETE FROM {table} WHERE id = ?") == []


@pytest.mark.parametrize("table", GROWING)
def test_no_index_makes_sqlite_fill_a_table_to_write_a_row(db: SqliteDb, table: str) -> None:
    steps = [row[1] for row in db.connection.execute(f"EXPLAIN INSERT INTO {table} DEFAULT VALUES")]

    assert "Insert" in steps and "OpenEphemeral" not in steps


def _reads_too_much(db: SqliteDb, sql: str) -> list[str]:
    if sql.startswith("--"):  # a trigger's
        return []
    plan = [row[3] for row in db.rows(f"EXPLAIN QUERY PLAN {sql}", (None,) * sql.count("?"))]
    return [f"{line}: {sql}" for line in plan if _is_scan(line) and not ORDERED.search(sql)] + [
        f"{line}: {sql}"
        for line in plan
        if WHOLE.search(line) and not ORDERED.search(sql) and not sql.startswith("DELETE")
    ]


def _is_scan(line: str) -> bool:
    found = re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", line)
    return found is not None and (found[1] in GROWING or len(found[1]) == 1) and found[2] not in FEW
