"""Requests that wait: how many there are, whose they are, and which need a look."""

from gatepost.store.port import Db
from gatepost.store.rights.requests import REQUESTS, Request, RequestKind


def count_waiting(db: Db, session_id: str) -> int:
    """How many of a session's wait."""
    row = db.row("SELECT COUNT(*) FROM requests WHERE state = 'pending' AND session_id = ?", (session_id,))
    return int(row[0]) if row else 0


def count_waiting_in_group(db: Db, folder: str) -> int:
    """How many of a group's sessions wait for whoever may decide about it, all of them together."""
    row = db.row(
        "SELECT COUNT(*) FROM requests r JOIN sessions s ON s.id = r.session_id WHERE r.state = 'pending'"
        " AND r.folder = ? AND (r.kind = 'call' OR s.agent = 0)",
        (folder,),
    )
    return int(row[0]) if row else 0


def list_of_people(db: Db, folder: str) -> list[Request]:
    """Return what people ask of a group, and waits."""
    return REQUESTS.list(db, "WHERE session_id IS NULL AND state = 'pending' AND folder = ? ORDER BY id", folder)


def list_names_of_people(db: Db) -> frozenset[tuple[RequestKind, str, str]]:
    """(kind, folder, name) of all that people ask and that waits. For a cache of rules: `requests.add` renames their
    state. One that has ended meanwhile may still be among them."""
    rows = db.rows("SELECT kind, folder, name FROM requests WHERE state = 'pending' AND session_id IS NULL")
    return frozenset((RequestKind(row[0]), row[1], row[2]) for row in rows)


def count_of_people(db: Db, folder: str) -> int:
    """Without what agents' tasks wait for: they do not keep strangers from being asked about."""
    waiting = "session_id IS NULL AND state = 'pending' AND folder = ? AND kind <> 'text'"
    row = db.row(f"SELECT COUNT(*) FROM requests WHERE {waiting}", (folder,))
    return int(row[0]) if row else 0


def list_oldest(db: Db, kind: RequestKind, folder: str, before: int, most: int) -> list[Request]:
    """Return the oldest of a kind in a group that wait since before a moment."""
    waiting = "WHERE state = 'pending' AND kind = ? AND folder = ? AND asked_at <= ? ORDER BY asked_at, id LIMIT ?"
    return REQUESTS.list(db, waiting, kind, folder, before, most)


def count_pending_of_kind(db: Db, kind: RequestKind, folder: str = "") -> int:
    """`folder`: of this group alone."""
    waiting = "SELECT COUNT(*) FROM requests WHERE state = 'pending' AND kind = ? AND (? = '' OR folder = ?)"
    row = db.row(waiting, (kind, folder, folder))
    return int(row[0]) if row else 0


def is_turn_waiting(db: Db, turn_id: str) -> bool:
    """Return True if a turn waits for somebody."""
    waits = "SELECT 1 FROM requests WHERE state = 'pending' AND turn_id = ? AND asker = 'provider' LIMIT 1"
    return db.row(waits, (turn_id,)) is not None


def find_pending(db: Db, turn_id: str) -> str:
    """Return the oldest request of a turn about which a person has to decide, whoever of it asked; '' if there is
    none. A host does not count: the connection was refused, and the turn went on."""
    own = "state = 'pending' AND turn_id = ? AND kind <> 'host'"
    pending = f"SELECT id FROM requests WHERE {own} ORDER BY asked_at, id LIMIT 1"
    row = db.row(pending, (turn_id,))
    return str(row[0]) if row else ""


def count_pending(db: Db) -> tuple[int, int]:
    """Count the requests that wait for somebody who may decide about a group, and those of them that were shown to
    nobody. Requests to the manager of an agent do not count: they have no card. A question is seen where it is
    asked."""
    row = db.row(
        "SELECT COUNT(*), COALESCE(SUM(CASE WHEN r.kind = 'question'"
        " OR EXISTS (SELECT 1 FROM request_cards c WHERE c.request_id = r.id AND c.open = 1)"
        " THEN 0 ELSE 1 END), 0) FROM requests r LEFT JOIN sessions s ON s.id = r.session_id"
        " WHERE r.state = 'pending' AND (r.asker <> 'provider' OR COALESCE(s.agent, 0) = 0)"
    )
    return (int(row[0]), int(row[1])) if row else (0, 0)


def list_ids_by_prefix(db: Db, beginning: str) -> list[str]:
    """The ids of those that wait, by how they begin."""
    rows = db.rows("SELECT id FROM requests WHERE state = 'pending' ORDER BY asked_at, id")
    return [request_id for (request_id,) in rows if request_id.startswith(beginning)]


def list_pending(db: Db, session_id: str | None = None) -> list[Request]:
    """The oldest first; of one session, or all."""
    if session_id is None:
        return REQUESTS.list(db, "WHERE state = 'pending' ORDER BY asked_at, id")
    return REQUESTS.list(db, "WHERE state = 'pending' AND session_id = ? ORDER BY asked_at, id", session_id)


def list_waiting(db: Db, after: Request | None, most: int) -> list[Request]:
    """Those that wait, the oldest first, behind one of them."""
    at, last = (after.asked_at, after.id) if after is not None else (0, "")
    rest = "WHERE state = 'pending' AND (asked_at, id) > (?, ?) ORDER BY asked_at, id LIMIT ?"
    return REQUESTS.list(db, rest, at, last, most)


def list_unsettled(db: Db, kind: RequestKind) -> list[Request]:
    """Return those of a kind that were allowed, and of which nothing has followed yet."""
    allowed = "WHERE state = 'allowed' AND kind = ? AND settled_at IS NULL ORDER BY answered_at, id"
    return REQUESTS.list(db, allowed, kind)


def list_due(db: Db, now: int, most: int) -> list[Request]:
    """Those that wait and need a look: somebody else is to be asked, or they expire."""
    return REQUESTS.list(db, "WHERE state = 'pending' AND next_at <= ? ORDER BY next_at, id LIMIT ?", now, most)


def list_short_of_cards(db: Db, most: int) -> list[Request]:
    """Return the requests that were shown to fewer people than must agree, the oldest first. They wait for somebody who
    may decide about a group. Requests to the manager of an agent have no card and are left out."""
    return REQUESTS.list(
        db,
        "WHERE state = 'pending' AND kind <> 'question'"
        " AND (SELECT COUNT(*) FROM request_cards c WHERE c.request_id = requests.id AND c.open = 1) < quorum"
        " AND (asker <> 'provider' OR NOT EXISTS"
        " (SELECT 1 FROM sessions s WHERE s.id = requests.session_id AND s.agent = 1))"
        " ORDER BY asked_at, id LIMIT ?",
        most,
    )


def hurry(db: Db, kind: RequestKind, now: int) -> None:
    """Have those of a kind looked at now: what they wait for may have come."""
    db.run("UPDATE requests SET next_at = ? WHERE state = 'pending' AND kind = ? AND next_at > ?", (now, kind, now))


def get_next_due(db: Db) -> int | None:
    row = db.row("SELECT MIN(next_at) FROM requests WHERE state = 'pending'")
    return row[0] if row else None


def defer(db: Db, request_id: str, next_at: int | None) -> None:
    db.run("UPDATE requests SET next_at = ? WHERE id = ? AND state = 'pending'", (next_at, request_id))


def postpone(db: Db, by: int) -> int:
    """Have requests of agents wait so much longer: the time did not pass for those who decide. Return how many there
    are."""
    rows = db.rows(
        "UPDATE requests SET expires_at = expires_at + ?, next_at = next_at + ?"
        " WHERE state = 'pending' AND session_id IS NOT NULL RETURNING id",
        (by, by),
    )
    return len(rows)
