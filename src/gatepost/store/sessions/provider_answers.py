"""Answers on their way to a provider that asked before it acted. A turn waits for them, in its sandbox or asleep. Each
is given to one attempt of the turn, and claimed on the disk before it is.
"""

from gatepost.store.port import Db
from gatepost.store.rights.requests import REQUESTS, Request


def get_waiting_until(db: Db, turn_id: str) -> tuple[int, int | None]:
    """For how many people's decisions a turn waits, and when the first of its requests expires."""
    row = db.row(
        "SELECT COUNT(*), MIN(expires_at) FROM requests WHERE state = 'pending' AND turn_id = ? AND asker = 'provider'",
        (turn_id,),
    )
    return (int(row[0]), row[1]) if row else (0, None)


def list_undelivered(db: Db, session_id: str) -> list[Request]:
    """Answers to a session's provider that no attempt was given yet."""
    undelivered = "WHERE session_id = ? AND asker = 'provider' AND state <> 'pending' AND notified_at IS NULL"
    return REQUESTS.list(db, f"{undelivered} ORDER BY answered_at, id", session_id)


def list_decided_in_turn(db: Db, session_id: str, turn_id: str, most: int) -> list[Request]:
    """Return what was decided about a provider's requests while no attempt of its turn was there to be told."""
    decided = (
        "WHERE session_id = ? AND turn_id = ? AND asker = 'provider' AND state <> 'pending' AND notified_at IS NULL"
    )
    return REQUESTS.list(db, f"{decided} ORDER BY answered_at, id LIMIT ?", session_id, turn_id, most)


def claim_answer(db: Db, request_id: str, now: int) -> bool:
    """An attempt of the turn is given the answer. Written before it is: so no answer is given to two of them. False if
    one had it before."""
    row = db.row(
        "UPDATE requests SET settled_at = COALESCE(settled_at, ?), notified_at = ? WHERE id = ? AND state <> 'pending'"
        " AND notified_at IS NULL RETURNING id",
        (now, now, request_id),
    )
    return row is not None


def return_answer(db: Db, request_id: str) -> None:
    """It could not be given after all: the next attempt may have it."""
    db.run("UPDATE requests SET notified_at = NULL WHERE id = ?", (request_id,))
