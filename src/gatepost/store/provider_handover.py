"""History: what was said in a session while another provider drove it. A provider that takes over is told, because its
own conversation does not hold it; one that comes back is told what it missed.

What was said before somebody asked for a fresh start is over for everybody: a provider's conversation that is forgotten
takes its turns with it.
"""

from typing import TYPE_CHECKING

from gatepost.store import inbox, messages
from gatepost.store.port import Db

if TYPE_CHECKING:
    from gatepost.store.turns import Turn

EVENT = "history"
MOST_MESSAGES, MOST_CHARS = 40, 16_000  # of the end of it

_TURNS = (
    "SELECT t.id FROM turns t JOIN conversations c ON c.session_id = t.session_id AND c.provider = t.provider"
    " AND c.conversation = t.conversation WHERE t.session_id = ? AND t.provider <> ? AND t.started_at >"
    " COALESCE((SELECT MAX(o.started_at) FROM turns o WHERE o.session_id = t.session_id AND o.provider = ?"
    " AND o.begun_at IS NOT NULL AND o.id <> ?), 0)"
)

# Rows if another one spoke last, for a provider, a session and the provider again. It looks at few rows.
AWAY = (
    "SELECT 1 FROM conversations other LEFT JOIN conversations own ON own.session_id = other.session_id"
    " AND own.provider = ? WHERE other.session_id = ? AND other.provider <> ?"
    " AND other.updated_at > COALESCE(own.updated_at, 0)"
)


def list_missed(db: Db, turn: "Turn") -> list[dict[str, str | bool]]:
    """The newest of it, oldest first: whether it is the agent's own, whose (people by name), and what."""
    asked = (turn.session_id, turn.provider, turn.provider, turn.id)
    rows = db.rows(
        f"SELECT * FROM (SELECT i.seq AS seq, 0, m.sender_name, m.sender, m.text FROM inbox i JOIN messages m"
        f" ON m.id = i.message_id WHERE i.given = 1 AND m.kind = 'chat' AND i.turn_id IN ({_TURNS})"
        f" UNION ALL SELECT o.seq, 1, '', '', m.text FROM outbox o JOIN messages m ON m.id = o.message_id"
        f" WHERE o.op = 'send' AND o.origin IN ('result', 'tool')"
        f" AND o.state NOT IN ('superseded', 'cancelled', 'failed') AND o.turn_id IN ({_TURNS})) AS said"
        " ORDER BY seq DESC LIMIT ?",
        (*asked, *asked, MOST_MESSAGES),
    )
    lines: list[dict[str, str | bool]] = []
    left = MOST_CHARS
    for _, own, name, sender, text in rows:
        left -= len(text)
        if left < 0 and lines:
            break
        lines.append({"own": bool(own), "sender": str(name or sender), "text": str(text)[-MOST_CHARS:]})
    return lines[::-1]


def enqueue_missed(db: Db, turn: "Turn", now: int) -> int | None:
    """A row for a turn that is about to begin, of a provider that was away. Its id; None if there is nothing to tell,
    or it waits there already."""
    if _is_enqueued(db, turn.session_id):
        return None
    lines = list_missed(db, turn)
    if not lines:
        return None
    message_id = messages.add_system(db, turn, f"{EVENT}:{turn.id}", {"event": EVENT, "messages": lines}, now)
    assert message_id is not None
    return inbox.enqueue(db, message_id, turn.session_id, turn.folder, turn.rights, now)


def _is_enqueued(db: Db, session_id: str) -> bool:
    """In a turn that broke before the provider had it. Ids are chosen by platforms and people; who says it is not."""
    row = db.row(
        "SELECT 1 FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.session_id = ?"
        f" AND i.{inbox.OPEN} AND i.state IN ('queued', 'retry', 'working') AND m.kind = 'system' AND m.sender = ?"
        " AND m.platform_id >= ? AND m.platform_id < ? LIMIT 1",
        (session_id, messages.SYSTEM, f"{EVENT}:", f"{EVENT};"),
    )
    return row is not None
