"""History: the messages of a session while another provider drove it. A provider that takes over is told, because its
own conversation does not hold it; one that comes back is told what it missed.

Messages from before somebody asked for a fresh start are over for every provider: a provider's conversation that is
forgotten takes its turns with it.
"""

from typing import TYPE_CHECKING

from gatepost.store.messages import inbox, messages
from gatepost.store.port import Db
from gatepost.store.sessions.sessions import HistoryLine

if TYPE_CHECKING:
    from gatepost.store.sessions.turns import Turn

EVENT = "history"
MOST_MESSAGES, MOST_CHARS = 40, 16_000  # of the end of it

# The turns of the conversations that nobody has forgotten.
_ALL_TURNS = (
    "SELECT t.id FROM turns t JOIN conversations c ON c.session_id = t.session_id AND c.provider = t.provider"
    " AND c.conversation = t.conversation WHERE t.session_id = ?"
)
_TURNS = (
    f"{_ALL_TURNS} AND t.provider <> ? AND t.started_at >"
    " COALESCE((SELECT MAX(o.started_at) FROM turns o WHERE o.session_id = t.session_id AND o.provider = ?"
    " AND o.begun_at IS NOT NULL AND o.id <> ?), 0)"
)

# Rows if another one spoke last, for a provider, a session and the provider again. It looks at few rows.
AWAY = (
    "SELECT 1 FROM conversations other LEFT JOIN conversations own ON own.session_id = other.session_id"
    " AND own.provider = ? WHERE other.session_id = ? AND other.provider <> ?"
    " AND other.updated_at > COALESCE(own.updated_at, 0)"
)


def list_missed(db: Db, turn: "Turn") -> list[HistoryLine]:
    """The newest of it, oldest first: whether it is the agent's own, whose (people by name), and what."""
    return _list_messages(db, _TURNS, (turn.session_id, turn.provider, turn.provider, turn.id))


def list_session_messages(db: Db, session_id: str) -> list[HistoryLine]:
    """The same of all that was said in a session, whoever drove it."""
    return _list_messages(db, _ALL_TURNS, (session_id,))


def is_away(db: Db, session_id: str, provider: str) -> bool:
    """Return True if another provider spoke last, so that this one's own conversation is not all of it."""
    return db.row(AWAY, (provider, session_id, provider)) is not None


def _list_messages(db: Db, turns: str, asked: tuple[str, ...]) -> list[HistoryLine]:
    rows = db.rows(
        f"SELECT * FROM (SELECT i.seq AS seq, 0, m.sender_name, m.sender, m.text FROM inbox i JOIN messages m"
        f" ON m.id = i.message_id WHERE i.given = 1 AND m.kind = 'chat' AND i.turn_id IN ({turns})"
        f" UNION ALL SELECT o.seq, 1, '', '', m.text FROM outbox o JOIN messages m ON m.id = o.message_id"
        f" WHERE o.op = 'send' AND o.origin IN ('result', 'tool')"
        f" AND o.state NOT IN ('superseded', 'cancelled', 'failed') AND o.turn_id IN ({turns})) AS said"
        " ORDER BY seq DESC LIMIT ?",
        (*asked, *asked, MOST_MESSAGES),
    )
    newest: list[HistoryLine] = [
        {"own": bool(own), "sender": str(name or sender), "text": str(text)} for _, own, name, sender, text in rows
    ]
    return keep_newest(newest[::-1])


def keep_newest(lines: list[HistoryLine]) -> list[HistoryLine]:
    """As much of the end as an agent is shown."""
    kept: list[HistoryLine] = []
    left = MOST_CHARS
    for line in reversed(lines[-MOST_MESSAGES:]):
        text = str(line["text"])
        left -= len(text)
        if left < 0 and kept:
            break
        kept.append({**line, "text": text[-MOST_CHARS:]})
    return kept[::-1]


def enqueue_missed(db: Db, turn: "Turn", now: int) -> tuple[int, int] | None:
    """A row for a turn that is about to begin, of a provider that was away. Its id and its message; None if there is
    nothing to tell, or it waits there already."""
    if _is_enqueued(db, turn.session_id):
        return None
    lines = list_missed(db, turn)
    if not lines:
        return None
    message_id = messages.add_system(db, turn, f"{EVENT}:{turn.id}", {"event": EVENT, "messages": lines}, now)
    assert message_id is not None
    return inbox.enqueue(db, message_id, turn.session_id, turn.folder, turn.rights, now), message_id


def _is_enqueued(db: Db, session_id: str) -> bool:
    """In a turn that broke before the provider had it. Ids are chosen by platforms and people; who says it is not."""
    row = db.row(
        "SELECT 1 FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.session_id = ?"
        f" AND {inbox.OPEN_I} AND i.state IN ('queued', 'retry', 'working') AND m.kind = 'system' AND m.sender = ?"
        " AND m.platform_id >= ? AND m.platform_id < ? LIMIT 1",
        (session_id, messages.SYSTEM, f"{EVENT}:", f"{EVENT};"),
    )
    return row is not None
