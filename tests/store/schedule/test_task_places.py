"""The place of a task is found by indexes that lead to it, however many conversations, firings and tasks there are."""

from collections.abc import Callable
from typing import Any

import apsw
import pytest

from gatepost.store.engine.sqlite_db import SqliteDb
from gatepost.store.messages import inbox, message_steps
from gatepost.store.port import Db
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.task_places import PlaceRequest, find_places
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode

ROOM = ("fake", "fake:room/1")
PLACE = PlaceRequest(
    task_id="t", folder="acme", instance="fake", address="fake:room/1", low="acme/", high="acme0",
    of_room="acme|fake|fake:room/1", of_thread="acme|fake|fake:room/1|", of_group="acme",
)  # fmt: skip
TASK = tasks.Task(
    id="t", folder="acme", instance="fake", address="fake:room/1", prompt="p", kind=tasks.ScheduleKind.EVERY,
    schedule="1h", every=1, state=tasks.TaskState.ACTIVE, reason="", next_at=1, runs=0, failures=0, created_by="me",
    depth=0, created_at=1, updated_at=1,
)  # fmt: skip
ASKED: dict[str, Callable[[Db], Any]] = {
    "places": lambda db: find_places(db, [PLACE] * 3),
    "fired": lambda db: firings.list_fired(db, [("a", 1), ("b", 2), ("c", 3)]),
    "open": lambda db: firings.count_open(db, ["a", "b", "c"]),
    "steps": lambda db: message_steps.add_queued(db, [1, 2, 3], 1),
    "undelivered": lambda db: firings.count_undelivered(db, ["a", "b", "c"], 10),
    "ahead": lambda db: firings.list_judged_ahead(db, ["a", "b", "c"], 1, 2),
    "last": firings.find_last_fired,
    "seqs": lambda db: sessions.claim_seqs(db, {"a": 1, "b": 2, "c": 1}, 1),
    "waiting": lambda db: inbox.count_waiting_tasks(db, ["a", "b", "c"]),
    "origins": lambda db: tasks.list_origins_of(db, ["a", "b", "c"]),
    "advance": lambda db: tasks.advance(db, [tasks.TaskMove(TASK, 2, "", 0)] * 3, 1),
}
KNOWN_INDEXES = {
    "sessions": ("sessions_live_room", "sessions_live_key", "sqlite_autoindex_sessions_1"),
    "firings": ("firings_once", "firings_open", "firings_age"),
}


@pytest.mark.sqlite(reason="reads the plans of SQLite")
@pytest.mark.parametrize("asked", ASKED)
def test_what_a_look_asks_leads_to_its_rows(db: SqliteDb, asked: str) -> None:
    seen: list[str] = []
    db.connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: seen.append(event["sql"]))
    ASKED[asked](db)
    db.connection.trace_v2(0, None)
    lines = [row[3] for sql in seen for row in db.rows(f"EXPLAIN QUERY PLAN {sql}", (None,) * sql.count("?"))]
    assert seen and not [
        each for each in lines if each.startswith("SCAN ") and "VALUES" not in each and each != "SCAN n"
    ]
    wanted = KNOWN_INDEXES["sessions"] + KNOWN_INDEXES["firings"]
    of_those = [each for each in lines if each.startswith(("SEARCH s ", "SEARCH f ", "SEARCH firings ", "SEARCH sess"))]
    assert [each for each in of_those if not any(f" {name}" in each for name in wanted)] == []


def test_a_place_is_where_the_group_or_one_below_it_talks(db: SqliteDb) -> None:
    for folder in ("acme", "acme/sales", "acmeish", "other"):
        groups.add(db, folder, folder, "", 1)

    def find(folder: str, instance: str = "fake") -> bool:
        low, high = f"{folder}/", f"{folder}0"
        asked = PlaceRequest(
            task_id="t", folder=folder, instance=instance, address=ROOM[1], low=low, high=high,
            of_room="", of_thread="", of_group="",
        )  # fmt: skip
        return find_places(db, [asked])["t"].reached

    assert not find("acme")
    made = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/sales", *ROOM, "7", 1)
    sessions.add_isolated(db, [("other", *ROOM, "")], 1)
    assert find("acme") and find("acme/sales")
    assert not find("acmeish") and not find("other") and not find("acme", "fake2")
    sessions.close(db, made.id, 2)
    assert not find("acme")


def test_a_prompt_goes_on_with_the_busiest_of_the_conversations_that_fit(db: SqliteDb) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    assert find_places(db, [PLACE])["t"].session_id == ""
    whole = sessions.find_or_add(db, SessionMode.AGENT_SHARED, "acme", "fake", "fake:room/9", "", 1)
    assert find_places(db, [PLACE])["t"].session_id == whole.id
    threaded = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", *ROOM, "", 3)
    sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", *ROOM, "another", 9)
    assert find_places(db, [PLACE])["t"].session_id == threaded.id
    shared = sessions.find_or_add(db, SessionMode.SHARED, "acme", *ROOM, "", 5)
    assert find_places(db, [PLACE])["t"].session_id == shared.id
    assert find_places(db, [PLACE])["t"].folder == "acme"
