"""The rows of one agent, read from an older store and put back into the present one.

The knowledge and work of an agent are put back: its name, routes, standing rules, instructions, memory, tasks, and the
state of its conversations. Decisions of people stay as they are now: provider, model, options, limits, rights, walls,
mounts, secrets, budgets, skills, pages. So does the ledger, because what was said was said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.store.engine.sqlite_copy import read_sqlite
from gatepost.store.engine.store_copy import BATCH
from gatepost.store.port import Db, Row
from gatepost.store.schedule import scheduled_texts, tasks
from gatepost.store.schedule.tasks import TaskState

REASON = "restored"  # of a task that is paused or over because of it
SETTINGS = ("name", "window_messages", "window_chars")
REPLACED = ("routes", "pinned_rules", "instructions", "memories")  # by id: those of now go, those of then come
BELOW_MEMORIES = ("memory_words", "memory_vectors")
TIMING = ("next_at", "runs", "failures")
SESSION_STATE = (
    "title",
    "provider",
    "model",
    "labels",
    "unlocked",
    "window_messages",
    "window_chars",
)
BELOW_SESSIONS = ("conversations", "session_notes")
_OF_SESSIONS = "session_id IN (SELECT id FROM sessions WHERE folder = ?)"
_CONDITIONS = {
    **dict.fromkeys(
        ("groups", *REPLACED, *BELOW_MEMORIES, "memory_views", "tasks", "sessions"),
        "folder = ?",
    ),
    "task_origins": "task_id IN (SELECT id FROM tasks WHERE folder = ?)",
    **dict.fromkeys(BELOW_SESSIONS, _OF_SESSIONS),
    "messages": "id IN (SELECT message_id FROM memories WHERE folder = ?)",
}
_ID = re.compile(r"[A-Za-z0-9_-]+\Z")  # of a conversation, which has a folder of that name
_SOURCE = (
    "id",
    "instance",
    "address",
    "direction",
    "sender",
    "accepted_at",
)  # by which a message is known to be the same


# People whose words or data its conversations, memories and tasks have.
_PEOPLE = (
    "SELECT u.id FROM users u WHERE u.id IN (SELECT COALESCE(i.person, w.name) FROM (SELECT m.sender AS name"
    " FROM inbox e JOIN messages m ON m.id = e.message_id WHERE e.folder = ?"
    " UNION SELECT speaker FROM memories WHERE folder = ? UNION SELECT person FROM memories WHERE folder = ?"
    " UNION SELECT created_by FROM tasks WHERE folder = ?) w"
    " LEFT JOIN identities i ON i.identity = w.name) ORDER BY u.id"
)
# The newest message of everybody whose words it had, also of strangers. Only who is forgotten loses it, unless all that
# is as old was removed.
_NEWEST = (
    "SELECT MAX(m.id) FROM inbox e JOIN messages m ON m.id = e.message_id WHERE e.folder = ? AND m.direction = 'in'"
    " GROUP BY m.sender"
)


class CopiedRows(Struct, frozen=True):
    columns: tuple[str, ...]
    rows: list[Row]

    def as_dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class GroupCopy(Struct, frozen=True):
    folder: str
    tables: Mapping[str, CopiedRows]
    below: tuple[str, ...] = ()  # the groups below it, whose folders lie in its own
    people: tuple[str, ...] = ()  # who were known and had to do with it
    newest: tuple[int, ...] = ()  # of each who wrote to it: the message

    def get(self, table: str) -> list[dict[str, Any]]:
        return self.tables[table].as_dicts()

    @property
    def session_ids(self) -> list[str]:
        return [str(each["id"]) for each in self.get("sessions")]


def read_copy(path: Path, folder: str) -> GroupCopy:
    """Read an agent from a store in a file, which is up to date. Raise Invalid if it is not there."""
    with read_sqlite(path) as found:
        columns = found.list_tables()
        tables = {name: _read(found.db, name, columns[name], folder) for name in _CONDITIONS}
        below = list_below(found.db, folder)
        people = tuple(str(row[0]) for row in found.db.rows(_PEOPLE, (folder,) * 4))
        newest = tuple(int(row[0]) for row in found.db.rows(_NEWEST, (folder,)))
    if not tables["groups"].rows:
        raise Invalid("--group", f"there is no agent {folder} in this backup")
    copy = GroupCopy(folder, tables, below, people, newest)
    if strange := next((each for each in copy.session_ids if not _ID.match(each)), ""):
        raise Invalid("--group", f"a conversation in this backup is named {strange[:60]!r}, as none of ours is")
    return copy


def _read(db: Db, table: str, columns: tuple[str, ...], folder: str) -> CopiedRows:
    wanted = _SOURCE if table == "messages" else columns
    sql = f"SELECT {', '.join(wanted)} FROM {table} WHERE {_CONDITIONS[table]}"
    return CopiedRows(wanted, db.rows(sql, (folder,)))


def list_below(db: Db, folder: str) -> tuple[str, ...]:
    rows = db.rows("SELECT folder FROM groups ORDER BY folder")
    return tuple(str(row[0]) for row in rows if str(row[0]).startswith(f"{folder}/"))


def list_sessions(db: Db, folder: str) -> list[str]:
    return [str(row[0]) for row in db.rows("SELECT id FROM sessions WHERE folder = ? ORDER BY id", (folder,))]


def count_rows(db: Db, folder: str) -> dict[str, int]:
    """Return how many rows there are now of each table of which some are replaced, for people."""
    found = {}
    for table in (*REPLACED, "tasks"):
        row = db.row(f"SELECT COUNT(*) FROM {table} WHERE folder = ?", (folder,))
        found[table] = int(row[0]) if row else 0
    return found


def check_copy(db: Db, copy: GroupCopy) -> None:
    """Raise Invalid if a row of the copy is another agent's now: the store was restored in between, and numbers its
    rows anew. Nor does it fit if somebody was forgotten since: nothing of them may come back."""
    if forgotten := sum(not _is_known(db, each) for each in copy.people) or _count_gone(db, copy.newest):
        people = "somebody" if forgotten == 1 else f"{forgotten} people"
        why = f"{people} in the agent's conversations or memories of then were forgotten since, and would be back"
        raise Invalid("--group", f"{why}; take a newer backup, or restore the whole one into another home")
    for table in (*REPLACED, "tasks", "sessions"):
        for some in _batches([each["id"] for each in copy.get(table)]):
            marks = ", ".join("?" * len(some))
            sql = f"SELECT id FROM {table} WHERE id IN ({marks}) AND COALESCE(folder, '') <> ?"
            if db.row(sql, (*some, copy.folder)) is not None:
                raise Invalid("--group", _render_conflict(table))
    for table in REPLACED:
        newest = max((int(each["id"]) for each in copy.get(table)), default=0)
        if newest > db.upkeep.get_last_id(table):
            raise Invalid("--group", _render_conflict(table))


def _is_known(db: Db, person: str) -> bool:
    """Return True if they are somebody still, or a further name of somebody."""
    known = "SELECT 1 FROM users WHERE id = ? UNION ALL SELECT 1 FROM identities WHERE identity = ? LIMIT 1"
    return db.row(known, (person, person)) is not None


def _count_gone(db: Db, message_ids: Sequence[int]) -> int:
    """Count the messages that are gone though older ones are there: retention removes the oldest first."""
    row = db.row("SELECT MIN(id) FROM messages")
    oldest = int(row[0]) if row is not None and row[0] is not None else 0
    found = 0
    for some in _batches([each for each in message_ids if each > oldest]):
        marks = ", ".join("?" * len(some))
        row = db.row(f"SELECT COUNT(*) FROM messages WHERE id IN ({marks})", tuple(some))
        found += len(some) - (int(row[0]) if row is not None else 0)
    return found


def _render_conflict(table: str) -> str:
    why = f"its {table.replace('_', ' ')} have numbers that are others' by now, because this home was restored since"
    return f"this backup does not fit the store: {why}; restore the whole backup into another home"


def _batches(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[at : at + BATCH] for at in range(0, len(values), BATCH))


def put_back(db: Db, copy: GroupCopy, now: int) -> None:
    """In one transaction. Done again, it changes nothing more."""
    check_copy(db, copy)
    _put_settings(db, copy)
    for table in REPLACED:
        db.run(f"DELETE FROM {table} WHERE folder = ?", (copy.folder,))
    known = _find_known_messages(db, copy)
    memories = [each if each["message_id"] in known else {**each, "message_id": None} for each in copy.get("memories")]
    _insert(db, "memories", memories)
    for table in (*REPLACED[:3], *BELOW_MEMORIES):
        _insert(db, table, copy.get(table))
    db.run("DELETE FROM memory_views WHERE folder = ?", (copy.folder,))
    _insert(db, "memory_views", copy.get("memory_views"))
    _put_tasks(db, copy, now)
    _put_sessions(db, copy)


def _insert(db: Db, table: str, rows: Sequence[Mapping[str, Any]], rest: str = "") -> None:
    for each in rows:
        marks = ", ".join("?" * len(each))
        db.run(f"INSERT INTO {table} ({', '.join(each)}) VALUES ({marks}) {rest}", tuple(each.values()))


def _put_settings(db: Db, copy: GroupCopy) -> None:
    (then,) = copy.get("groups")
    if db.row("SELECT 1 FROM groups WHERE folder = ?", (copy.folder,)) is None:
        _insert(db, "groups", [{**then, "open": 0, "mounts": "[]", "sandbox": ""}])  # closed, as one with no decisions
        return
    names = ", ".join(f"{name} = ?" for name in SETTINGS)
    db.run(f"UPDATE groups SET {names} WHERE folder = ?", (*(then[name] for name in SETTINGS), copy.folder))


def _find_known_messages(db: Db, copy: GroupCopy) -> set[int]:
    """Return the messages of the copy that are the same ones now. Others were removed, or their ids given anew."""
    found = set()
    for row in copy.tables["messages"].rows:
        same = db.row(f"SELECT {', '.join(_SOURCE)} FROM messages WHERE id = ?", (row[0],))
        if same is not None and tuple(same) == tuple(row):
            found.add(int(row[0]))
    return found


def _put_tasks(db: Db, copy: GroupCopy, now: int) -> None:
    """A task that goes on as it did keeps its next time. One that would be due at once is paused: it ran, perhaps. Of
    one that says something else now than then, nobody agreed to what comes back."""
    rows = db.rows(
        f"SELECT id, schedule, every, zone, state, {', '.join(TIMING)} FROM tasks WHERE folder = ?", (copy.folder,)
    )
    present = {str(row[0]): row for row in rows}
    wanted = copy.get("tasks")
    for each in wanted:
        is_new = each["id"] not in present
        if not is_new:
            _, schedule, every, zone, state, *timing = present[each["id"]]
            same = (schedule, every, zone) == (each["schedule"], each["every"], each["zone"])
            if same and state == each["state"] == TaskState.ACTIVE:
                each.update(zip(TIMING, timing, strict=True))
        if each["state"] == TaskState.ACTIVE and each["next_at"] is not None and each["next_at"] <= now:
            each.update(state=TaskState.PAUSED, reason=REASON, updated_at=now)
        if is_new:
            _insert(db, "tasks", [each])
        else:
            before = tasks.get(db, each["id"])
            names = [name for name in each if name not in ("id", "folder", "max_cost")]  # a limit is no memory
            values = (*(each[name] for name in names), each["id"])
            db.run(f"UPDATE tasks SET {', '.join(f'{name} = ?' for name in names)} WHERE id = ?", values)
            after = tasks.get(db, each["id"])
            if before is not None and after is not None and before.spoken != after.spoken:
                scheduled_texts.remove_agreed(db, after.id)
    _insert(db, "task_origins", copy.get("task_origins"), "ON CONFLICT DO NOTHING")
    for task_id in present.keys() - {each["id"] for each in wanted}:
        db.run(
            "UPDATE tasks SET state = 'cancelled', reason = ?, next_at = NULL, updated_at = ?"
            " WHERE id = ? AND state <> 'cancelled'",
            (REASON, now, task_id),
        )


def _put_sessions(db: Db, copy: GroupCopy) -> None:
    """Put back the memory of each conversation; what was said in it stays in the ledger. One that is closed stays so,
    and one that was begun since goes on. The mode in which it acts is a person's word, and stays as it is now."""
    for each in copy.get("sessions"):
        names = ", ".join(f"{name} = ?" for name in SESSION_STATE)
        values = (*(each[name] for name in SESSION_STATE), each["id"])
        if db.run(f"UPDATE sessions SET {names} WHERE id = ?", values):
            continue
        taken = db.row("SELECT 1 FROM sessions WHERE key = ? AND closed_at IS NULL", (each["key"],)) is not None
        closed = each["active_at"] if taken and each["closed_at"] is None else each["closed_at"]
        state = "closed" if closed is not None else "idle"
        own = {"closed_at": closed, "state": state, "owner": "", "lease_until": 0, "permission_mode": ""}
        _insert(db, "sessions", [{**each, **own}])
    for session_id in copy.session_ids:
        for table in BELOW_SESSIONS:
            db.run(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    for table in BELOW_SESSIONS:
        _insert(db, table, copy.get(table))
