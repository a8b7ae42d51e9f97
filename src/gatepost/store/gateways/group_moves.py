"""Moves of worlds from one gateway to another, where folders are not shared. A row is the state of one.

The source packs the files into the store, the target unpacks and compares them, and in one transaction the world's
place changes and the move has arrived. Before that its files are at the source, after it at the target, whoever dies.

A world whose gateway does not come back is moved without its files. The memory of its providers lay among these, so
each conversation begins anew. An open turn is given its whole prompt again, with the list of what it had said and done.
"""

import json
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from gatepost.core import ids
from gatepost.store.engine.table import Table
from gatepost.store.gateways.group_places import below, get_world
from gatepost.store.messages import passed_files
from gatepost.store.messages.inbox import OPEN
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.sessions import worktrees
from gatepost.store.sessions.worktrees import WorktreeState

_OWN = "folder = ? OR (folder > ? AND folder < ?)"
_SESSIONS = f"SELECT id FROM sessions WHERE {_OWN}"


class GroupMoveState(StrEnum):
    WANTED = "wanted"  # the source ends its sessions, and packs
    PACKED = "packed"  # the target unpacks
    ARRIVED = "arrived"  # the world's place is the target; the source removes what it had
    DONE = "done"
    FAILED = "failed"  # given up: everything is still at the source


class GroupMove(Struct, frozen=True):
    id: str
    world: str
    source: str
    target: str
    state: GroupMoveState
    sessions: tuple[str, ...]
    files: int
    bytes: int
    digest: str
    note: str
    created_at: int
    ended_at: int | None


GROUP_MOVES = Table("group_moves", GroupMove)
MOST_SESSIONS = 20_000  # that go with a world


def add(db: Db, world: str, source: str, target: str, now: int) -> GroupMove:
    """From now on nothing of the world is woken."""
    db.run("UPDATE group_places SET moving = 1 WHERE world = ? AND gateway = ?", (world, source))
    return _insert(db, world, source, target, GroupMoveState.WANTED, "", now)


def add_done(db: Db, world: str, source: str, target: str, note: str, now: int) -> GroupMove:
    """One for which nothing was packed: the world's place has changed already."""
    return _insert(db, world, source, target, GroupMoveState.DONE, note, now, ended_at=now)


def _insert(
    db: Db,
    world: str,
    source: str,
    target: str,
    state: GroupMoveState,
    note: str,
    now: int,
    ended_at: int | None = None,
) -> GroupMove:
    return GROUP_MOVES.put(
        db,
        id=ids.new("move"),
        world=world,
        source=source,
        target=target,
        state=state,
        sessions="[]",
        files=0,
        bytes=0,
        digest="",
        note=note,
        created_at=now,
        ended_at=ended_at,
    )


def name_pieces(move: GroupMove) -> str:
    """Return the name of a move's files in the store."""
    return f"move/{move.id}"


def get(db: Db, move_id: str) -> GroupMove | None:
    return GROUP_MOVES.get(db, "WHERE id = ?", move_id)


def find_open(db: Db, world: str) -> GroupMove | None:
    """The one that is under way. There is one at a time."""
    return GROUP_MOVES.get(db, "WHERE world = ? AND ended_at IS NULL", world)


def list_open(db: Db, gateway: str) -> list[GroupMove]:
    """Those that this gateway has a part in."""
    return GROUP_MOVES.list(db, "WHERE ended_at IS NULL AND (source = ? OR target = ?) ORDER BY id", gateway, gateway)


def list_sessions(db: Db, world: str) -> list[str]:
    """Every one of a world, closed ones too; one more than may be."""
    rows = db.rows(
        "SELECT id FROM sessions WHERE folder = ? OR (folder > ? AND folder < ?) ORDER BY id LIMIT ?",
        (world, *below(world), MOST_SESSIONS + 1),
    )
    return [str(row[0]) for row in rows]


def list_running(db: Db, world: str) -> list[str]:
    """Sessions of a world that some gateway runs."""
    rows = db.rows(
        "SELECT id FROM sessions WHERE owner <> '' AND (folder = ? OR (folder > ? AND folder < ?)) ORDER BY id",
        (world, *below(world)),
    )
    return [str(row[0]) for row in rows]


def set_packed(db: Db, move: GroupMove, sessions: Sequence[str], files: int, size: int, digest: str) -> bool:
    """False: it was given up meanwhile."""
    changed = db.run(
        "UPDATE group_moves SET state = 'packed', sessions = ?, files = ?, bytes = ?, digest = ?"
        " WHERE id = ? AND state = 'wanted'",
        (json.dumps(list(sessions)), files, size, digest, move.id),
    )
    return changed == 1


def set_arrived(db: Db, move: GroupMove, note: str, now: int) -> bool:
    """The world's place is the target. False: the move was given up, or the world is gone."""
    changed = db.run(
        "UPDATE group_moves SET state = 'arrived', note = ? WHERE id = ? AND state = 'packed'", (note, move.id)
    )
    if not changed:
        return False
    passed_files.remove(db, [name_pieces(move)])
    placed = db.run(
        "UPDATE group_places SET gateway = ?, since = ?, moving = 0 WHERE world = ? AND gateway = ? AND moving = 1",
        (move.target, now, move.world, move.source),
    )
    if not placed:
        db.run("UPDATE group_moves SET state = 'failed', ended_at = ? WHERE id = ?", (now, move.id))
    return placed == 1


def set_done(db: Db, move: GroupMove, now: int) -> None:
    """The source has nothing of it any more."""
    db.run("UPDATE group_moves SET state = 'done', ended_at = ? WHERE id = ? AND state = 'arrived'", (now, move.id))


def set_failed(db: Db, move: GroupMove, note: str, now: int) -> bool:
    """It stays where it was, and is run there again. False: it has arrived, or was given up before."""
    changed = db.run(
        "UPDATE group_moves SET state = 'failed', note = ?, ended_at = ?"
        " WHERE id = ? AND state IN ('wanted', 'packed')",
        (note, now, move.id),
    )
    if changed:
        passed_files.remove(db, [name_pieces(move)])
        db.run("UPDATE group_places SET moving = 0 WHERE world = ? AND gateway = ?", (move.world, move.source))
    return changed == 1


def end_of_forgotten(db: Db, gateway: str, now: int) -> None:
    """A gateway that will not come back removes nothing any more."""
    db.run("UPDATE group_moves SET state = 'done', ended_at = ? WHERE source = ? AND state = 'arrived'", (now, gateway))


def move_without_files(db: Db, world: str, source: str, target: str, now: int) -> GroupMove:
    """Make the target the world's place from now on. The caller has found that the source is gone."""
    db.run(
        "UPDATE group_places SET gateway = ?, since = ?, moving = 0 WHERE world = ? AND gateway = ?",
        (target, now, world, source),
    )
    _forget_conversations(db, world, now)
    lost = _archive_worktrees(db, world, now)
    db.run(
        f"UPDATE inbox SET next_at = ? WHERE {OPEN} AND state = 'queued' AND next_at > ? AND ({_OWN})",
        (now, now, world, *below(world)),
    )
    note = f"its files stayed on {source}, and its conversations begin anew"
    note = f"{note}; lost worktrees: {', '.join(lost)}" if lost else note
    return add_done(db, world, source, target, note, now)


def _forget_conversations(db: Db, world: str, now: int) -> None:
    """As `sessions.remove_conversations`, of all sessions at once. Summaries stay: they lie in the store."""
    own = (world, *below(world))
    db.run(
        "UPDATE sessions SET reset_at = ?, unlocked = ''"
        f" WHERE id IN (SELECT session_id FROM conversations) AND ({_OWN})",
        (now, *own),
    )
    db.run(
        "UPDATE requests SET lasts = 'once' WHERE state = 'allowed' AND lasts = 'session'"
        f" AND session_id IN ({_SESSIONS})",
        own,
    )
    db.run(
        f"UPDATE requests SET about = ? WHERE state = 'pending' AND session_id IN ({_SESSIONS})",
        (requests.EARLIER, *own),
    )
    db.run(f"DELETE FROM conversations WHERE session_id IN ({_SESSIONS})", own)
    db.run(f"UPDATE turns SET conversation = '' WHERE ended_at IS NULL AND session_id IN ({_SESSIONS})", own)


def _archive_worktrees(db: Db, world: str, now: int) -> list[str]:
    """Their files are where nobody comes any more. Their names."""
    lost = [each for each in worktrees.list_all(db) if get_world(each.folder) == world]
    for each in lost:
        worktrees.set_state(db, each.project, each.slug, WorktreeState.ARCHIVED, now)
    return [each.name for each in lost]
