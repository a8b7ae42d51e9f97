"""Turns that wait for a person's decision and have no sandbox meanwhile.

Such a turn is interrupted, and its `error` says that it sleeps. Its next attempt is due when the first of its requests
expires: so none sleeps for ever. A decision makes it due at once, in the transaction that records the decision.
"""

from gatepost.core.clock import DAY
from gatepost.store.port import Db
from gatepost.store.sessions import provider_answers

ASLEEP = "it waits for a person's decision"  # why the turn was interrupted
LONGEST = DAY  # for a request that has no end of its own


def find_wake_time(db: Db, turn_id: str, now: int) -> int:
    """When a turn goes on if nobody decides: now, if it waits for nobody."""
    waiting, first = provider_answers.get_waiting_until(db, turn_id)
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
