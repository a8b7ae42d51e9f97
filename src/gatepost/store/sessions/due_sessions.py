"""Due sessions: which of them have rows of the inbox to work on, and when somebody must look at them next."""

from msgspec import Struct

from gatepost.store.messages.inbox import OPEN, OPEN_I
from gatepost.store.port import Db, inline_read
from gatepost.store.sessions.sessions import SessionMode

_ELSEWHERE = "EXISTS (SELECT 1 FROM sessions s WHERE s.id = i.session_id AND s.owner NOT IN ('', ?))"


def list_sessions_with_work(db: Db, now: int, gateway: str = "") -> list[tuple[str, str, int]]:
    """(session, folder, first due) of every live session that has a row due. `gateway`: but for those that another one
    has awake, which looks for itself."""
    here, params = (f" AND NOT {_ELSEWHERE}", (now, gateway)) if gateway else ("", (now,))
    rows = db.rows(
        f"SELECT i.session_id, i.folder, MIN(i.next_at) FROM inbox i WHERE {OPEN_I}"
        f" AND i.next_at <= ? AND i.session_id IS NOT NULL{here} GROUP BY i.session_id, i.folder ORDER BY 3",
        params,
    )
    return [(row[0], row[1], row[2]) for row in rows]


class RunningSession(Struct, frozen=True):
    """A conversation with an open turn or with rows that wait. `threads`: its own, and that of its turn."""

    session_id: str
    key: str
    folder: str
    mode: SessionMode
    threads: tuple[str, ...]


def list_running(db: Db, instance: str, address: str, most: int) -> list[RunningSession]:
    """Those of a room. A turn counts in the room that it answers; of what waits, the conversations used last."""
    found: dict[str, RunningSession] = {}
    rows = db.rows(
        "SELECT s.id, s.key, s.folder, s.mode, s.thread, t.thread FROM turns t JOIN sessions s ON s.id = t.session_id"
        " WHERE t.instance = ? AND t.address = ? AND t.ended_at IS NULL ORDER BY t.started_at DESC LIMIT ?",
        (instance, address, most),
    )
    rows += db.rows(
        "SELECT s.id, s.key, s.folder, s.mode, s.thread, s.thread FROM (SELECT * FROM sessions WHERE address = ? AND"
        " instance = ? AND closed_at IS NULL AND mode <> 'isolated' ORDER BY active_at DESC LIMIT ?) s"
        f" WHERE EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = s.id AND {OPEN_I})",
        (address, instance, most),
    )
    for session_id, key, folder, mode, own, turn in rows:
        found.setdefault(session_id, RunningSession(session_id, key, folder, SessionMode(mode), (own, turn)))
    return list(found.values())


def has_only_tasks(db: Db, session_id: str) -> bool:
    """Return True if nothing but firings is open in this session: nobody waits for an answer."""
    other = f"SELECT 1 FROM inbox WHERE session_id = ? AND {OPEN} AND mode <> 'task' LIMIT 1"
    return db.row(other, (session_id,)) is None


def list_waiting_sessions(db: Db) -> list[str]:
    """Every session with a row that is not in an end state, by who came first."""
    rows = db.rows(
        f"SELECT session_id FROM inbox WHERE {OPEN} AND session_id IS NOT NULL GROUP BY session_id ORDER BY MIN(id)"
    )
    return [row[0] for row in rows]


def list_waiting_below(db: Db, folder: str) -> list[str]:
    """Those of a group and of the groups below it."""
    below = f"{folder}/"
    rows = db.rows(
        f"SELECT session_id FROM inbox WHERE {OPEN} AND session_id IS NOT NULL AND (folder = ? OR"
        " SUBSTR(folder, 1, CAST(? AS INTEGER)) = ?) GROUP BY session_id ORDER BY MIN(id)",
        (folder, len(below), below),
    )
    return [row[0] for row in rows]


def defer_all_due(db: Db, now: int, until: int) -> None:
    """Nothing is worked on for the time being, and somebody knows: what is due is not overdue before `until`."""
    db.run(f"UPDATE inbox SET next_at = ? WHERE {OPEN} AND next_at <= ?", (until, now))


def has_work(db: Db, session_id: str, now: int) -> bool:
    """Return True if anything of this session can be worked on now; whoever looked at a queued row last does not
    matter."""
    row = db.row(
        f"SELECT 1 FROM inbox WHERE session_id = ? AND {OPEN} AND (state = 'queued' OR (state IN ('retry', 'working')"
        " AND next_at <= ?)) LIMIT 1",
        (session_id, now),
    )
    return row is not None and get_retry_time(db, session_id, now) is None


@inline_read
def get_retry_time(db: Db, session_id: str, now: int) -> int | None:
    """Return when the next try of this session is due; None if it may be woken now. Messages that arrive meanwhile wait
    with the first row. Only time leads to a try, so that a burst of arrivals uses up none."""
    turn = db.row(
        "SELECT next_at FROM turns WHERE session_id = ? AND ended_at IS NULL AND state = 'interrupted'", (session_id,)
    )
    if turn is not None:
        return int(turn[0]) if turn[0] > now else None
    first = (
        f"SELECT state, next_at FROM inbox WHERE session_id = ? AND {OPEN} AND state IN ('queued', 'retry') AND mode"
    )
    head = db.row(f"{first} <> 'task' ORDER BY seq LIMIT 1", (session_id,))
    head = head or db.row(f"{first} = 'task' ORDER BY seq LIMIT 1", (session_id,))
    return int(head[1]) if head is not None and head[0] == "retry" and head[1] > now else None


def get_next_due(db: Db) -> int | None:
    row = db.row(f"SELECT MIN(next_at) FROM inbox WHERE {OPEN}")
    return row[0] if row else None


def defer_session_due(db: Db, session_id: str, until: int) -> None:
    """Somebody takes care of this session's waiting rows: they are not overdue before `until`. Rows that are worked on
    are kept alive by their turn alone."""
    db.run(
        f"UPDATE inbox SET next_at = ? WHERE session_id = ? AND {OPEN} AND state = 'queued' AND next_at < ?",
        (until, session_id, until),
    )


def find_work(db: Db, now: int, gateway: str = "") -> tuple[list[tuple[str, str, int]], int | None]:
    """Sessions with work that is due, and when the next of all rows is. One look, for it is asked for every second."""
    return list_sessions_with_work(db, now, gateway), get_next_due(db)
