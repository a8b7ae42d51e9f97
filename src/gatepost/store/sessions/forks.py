"""Forks: which session began with a copy of which other one's conversation, and what the copies of a group take."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db

MOST_DESCENDANTS = 10_000


class ForkMethod(StrEnum):
    COPIED = "copied"  # the provider's own conversation, with all that it holds
    TRANSCRIPT = "transcript"  # what was said, as far as the ledger knows it


class Fork(Struct, frozen=True):
    child_id: str
    parent_id: str
    folder: str
    provider: str
    conversation: str
    how: ForkMethod
    bytes: int
    created_at: int


class ForkedSession(Struct, frozen=True, kw_only=True):
    """The outcome of a wish for a fork."""

    session_id: str
    parent_id: str
    folder: str
    parent_topic: str
    topic: str
    how: ForkMethod
    replaced: str = ""  # the session that was in its place


class ForkUsage(Struct, frozen=True):
    """The forks of one group: those that are open, what their copies took, and how many were made lately."""

    open: int
    bytes: int
    lately: int


class WantedFork(Struct, frozen=True):
    """A fork that somebody asked for in a chat. The transaction that removes it answers the message that asks."""

    message_id: int
    parent_id: str
    topic: str
    tries: int


FORKS = Table("forks", Fork)
WANTED_FORKS = Table("wanted_forks", WantedFork)


def add(db: Db, new: Fork) -> None:
    FORKS.insert(db, "", new)


def get(db: Db, child_id: str) -> Fork | None:
    return FORKS.get(db, "WHERE child_id = ?", child_id)


def spans_rooms(db: Db, session_id: str) -> bool:
    """Return True if a conversation has what was said in several rooms: its own, or those that it was forked from."""
    row = db.row(
        "WITH RECURSIVE line (id) AS (SELECT id FROM sessions WHERE id = ? UNION"
        " SELECT f.parent_id FROM forks f JOIN line l ON f.child_id = l.id)"
        " SELECT 1 FROM line l JOIN sessions s ON s.id = l.id JOIN sessions own ON own.id = ?"
        " WHERE s.mode = 'agent-shared' OR s.instance <> own.instance OR s.address <> own.address LIMIT 1",
        (session_id, session_id),
    )
    return row is not None


def get_unused_conversation(db: Db, child_id: str, provider: str) -> str:
    """The parent's conversation, as long as the child has had no turn of its own; '' otherwise."""
    row = db.row(
        "SELECT f.conversation FROM forks f WHERE f.child_id = ? AND f.provider = ?"
        " AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session_id = f.child_id AND t.begun_at IS NOT NULL)",
        (child_id, provider),
    )
    return str(row[0]) if row else ""


def get_usage(db: Db, folder: str, since: int) -> ForkUsage:
    row = db.row(
        "SELECT COUNT(*), COALESCE(SUM(f.bytes), 0) FROM forks f JOIN sessions s ON s.id = f.child_id"
        " WHERE f.folder = ? AND s.closed_at IS NULL",
        (folder,),
    )
    lately = db.row("SELECT COUNT(*) FROM forks WHERE folder = ? AND created_at > ?", (folder, since))
    assert row is not None and lately is not None
    return ForkUsage(int(row[0]), int(row[1]), int(lately[0]))


def list_children(db: Db, parent_id: str, most: int) -> list[Fork]:
    """Return what was forked from a session itself."""
    return FORKS.list(db, "WHERE parent_id = ? ORDER BY created_at DESC LIMIT ?", parent_id, most)


def list_descendants(db: Db, session_ids: Sequence[str]) -> list[str]:
    """Sessions that know what these know, because they were forked from them or from forks of them."""
    found: dict[str, None] = {}
    waiting = list(session_ids)
    while waiting and len(found) < MOST_DESCENDANTS:  # all that a group can have, many times over
        rows = db.rows("SELECT child_id FROM forks WHERE parent_id = ? ORDER BY child_id", (waiting.pop(),))
        new = [str(row[0]) for row in rows if row[0] not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return [each for each in found if each not in set(session_ids)]


# Those that people asked for.


def add_wanted(db: Db, message_id: int, parent_id: str, topic: str) -> None:
    WANTED_FORKS.insert(db, message_id=message_id, parent_id=parent_id, topic=topic)


def is_wanted(db: Db, message_id: int) -> bool:
    """Return True if a message asks for a fork, and has no answer yet."""
    return db.row("SELECT 1 FROM wanted_forks WHERE message_id = ?", (message_id,)) is not None


def list_wanted(db: Db, most: int) -> list[int]:
    """Return the messages that ask for a fork, by age, one of each group. A group's forks are made one by one. Further
    ones would only stand in line before those of other groups, and be counted as begun."""
    rows = db.rows(
        "SELECT MIN(w.message_id) AS oldest FROM wanted_forks w LEFT JOIN sessions s ON s.id = w.parent_id"
        " GROUP BY COALESCE(s.folder, '') ORDER BY oldest LIMIT ?",
        (most,),
    )
    return [int(row[0]) for row in rows]


def count_wanted(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM wanted_forks")
    return int(row[0]) if row else 0


def begin_wanted(db: Db, message_id: int) -> WantedFork | None:
    """Count a try. None: it was answered, or its message is gone."""
    rows = db.rows(
        f"UPDATE wanted_forks SET tries = tries + 1 WHERE message_id = ? RETURNING {WANTED_FORKS.columns}",
        (message_id,),
    )
    return WANTED_FORKS.parse(rows[0]) if rows else None


def remove_wanted(db: Db, message_id: int) -> bool:
    """Once: who removes it answers."""
    return bool(db.run("DELETE FROM wanted_forks WHERE message_id = ?", (message_id,)))
