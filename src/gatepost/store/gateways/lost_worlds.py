"""A world whose gateway does not come back: it is run elsewhere, without the files that were there.

The memory of its providers lay among these files, so each conversation begins anew. A turn that was open is given its
whole prompt again, with the list of what it had said and done.
"""

from gatepost.store.gateways import group_moves
from gatepost.store.gateways.group_moves import GroupMove
from gatepost.store.gateways.group_places import below, get_world
from gatepost.store.messages.inbox import OPEN
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.sessions import worktrees
from gatepost.store.sessions.worktrees import WorktreeState

_OWN = "folder = ? OR (folder > ? AND folder < ?)"
_SESSIONS = f"SELECT id FROM sessions WHERE {_OWN}"


def move(db: Db, world: str, source: str, target: str, now: int) -> GroupMove:
    """The world's place is the target from now on. The caller has found that the source is gone."""
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
    return group_moves.add_done(db, world, source, target, note, now)


def _forget_conversations(db: Db, world: str, now: int) -> None:
    """As `sessions.remove_conversations`, of all sessions at once. Summaries stay: they lie in the store."""
    own = (world, *below(world))
    db.run(
        f"UPDATE sessions SET reset_at = ? WHERE id IN (SELECT session_id FROM conversations) AND ({_OWN})", (now, *own)
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
