"""Turns that wait for a person's decision and have no sandbox meanwhile.

Such a turn is interrupted, and its `error` says that it sleeps. Its next attempt is due when the first of its requests
expires: so none sleeps for ever. A decision makes it due at once, in the transaction that records the decision.

The answers are for its provider, which asked before it acted. Each is given to one attempt of the turn, and claimed on
the disk before it is.
"""

from gatepost.core.clock import DAY
from gatepost.store.port import Db
from gatepost.store.rights.requests import REQUESTS, Request

ASLEEP = "it waits for a person's decision"  # why the turn was interrupted
LONGEST = DAY  # for a request that has no end of its own


def find_wake_time(db: Db, turn_id: str, now: int) -> int:
    """When a turn goes on if nobody decides: now, if it waits for nobody."""
    waiting, first = get_waiting_until(db, turn_id)
    if not waiting:
        return now
    return min(first if first is not None else now + LONGEST, now + LONGEST)


def wake(db: Db, turn_id: str, now: int) -> bool:
    """Somebody has decided: the turn goes on. False if it does not sleep."""
    return _set_due(db, turn_id, now)


def defer_sleeping(db: Db, now: int) -> None:
    """After a start: whoever sleeps goes on sleeping, until the time that its requests say."""
    for (turn_id,) in db.rows(
        "SELECT id FROM turns WHERE ended_at IS NULL AND state = 'interrupted' AND error = ?", (ASLEEP,)
    ):
        _set_due(db, turn_id, find_wake_time(db, turn_id, now))


def _set_due(db: Db, turn_id: str, due: int) -> bool:
    changed = db.run(
        "UPDATE turns SET next_at = ? WHERE id = ? AND ended_at IS NULL AND state = 'interrupted' AND error = ?",
        (due, turn_id, ASLEEP),
    )
    if changed:
        db.run("UPDATE inbox SET next_at = ? WHERE turn_id = ? AND state = 'working'", (due, turn_id))
    return bool(changed)


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
