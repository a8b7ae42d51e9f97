"""Those who agree to a request, if several must, or answered a part of it."""

from collections.abc import Sequence

from gatepost.store.port import Db

_AND = ", "  # between those who agreed together: no identity has a space


def add_vote(db: Db, request_id: str, person: str, now: int) -> int:
    """Somebody agrees, or answers one of several questions. How many did so."""
    db.run(
        "INSERT INTO request_votes (request_id, person, voted_at) VALUES (?, ?, ?)"
        " ON CONFLICT (request_id, person) DO NOTHING",
        (request_id, person, now),
    )
    row = db.row("SELECT COUNT(*) FROM request_votes WHERE request_id = ?", (request_id,))
    return int(row[0]) if row else 0


def join_names(people: Sequence[str]) -> str:
    """As `answered_by` has those who agreed together."""
    return _AND.join(people)


def split_names(listed: str) -> list[str]:
    return listed.split(_AND)


def list_voters(db: Db, request_id: str) -> list[str]:
    rows = db.rows("SELECT person FROM request_votes WHERE request_id = ? ORDER BY voted_at, person", (request_id,))
    return [row[0] for row in rows]
