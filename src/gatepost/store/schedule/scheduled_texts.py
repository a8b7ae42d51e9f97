"""Texts of tasks after their firing: what became of the delivery, what waits for a person, and which holds people have
agreed to. A text that failed for good is a failed run, once, in the transaction that ends its delivery."""

from collections.abc import Iterable

from gatepost.store.port import Db
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FIRINGS, LONGEST_REASON, Firing

BEGIN = "task/"  # how the keys of their deliveries begin


_NO_GROUP = ""  # the folder of what is no rule


def parse_key(key: str) -> tuple[str, int] | None:
    """The task and the due time of a delivery, or of a further part of it; None: it is of something else."""
    if not key.startswith(BEGIN):
        return None
    task_id, _, rest = key.removeprefix(BEGIN).partition("/")
    due_at = rest.partition("/")[0]
    return (task_id, int(due_at)) if due_at.isascii() and due_at.isdigit() else None


def record_undelivered(db: Db, task_id: str, due_at: int, reason: str, now: int) -> bool:
    """The run has failed after all. False if it was known before: each part may fail."""
    row = db.row(
        "UPDATE firings SET state = 'failed', reason = ?, ended_at = ? WHERE task_id = ? AND due_at = ?"
        " AND state = 'sent' RETURNING id",
        (reason[:LONGEST_REASON], now, task_id, due_at),
    )
    if row is None:
        return False
    tasks.record_failure(db, task_id, reason[:LONGEST_REASON], now)
    return True


def record_delivered(db: Db, task_id: str, due_at: int) -> None:
    """A part has arrived. With the last of them the task has no failures behind it."""
    key = firings.get_text_key(task_id, due_at)
    db.run(
        "UPDATE tasks SET failures = 0 WHERE id = ? AND failures > 0 AND NOT EXISTS"
        " (SELECT 1 FROM outbox o WHERE o.key >= ? AND o.key < ? AND o.state <> 'sent')",
        (task_id, key, f"{key}0"),
    )


def find_task(db: Db, message_id: int) -> str | None:
    """The task whose text a message is; None: it is no such text."""
    keys = [str(row[0]) for row in db.rows("SELECT key FROM outbox WHERE message_id = ?", (message_id,))]
    return next((found[0] for key in keys if (found := parse_key(key)) is not None), None)


def set_waiting(db: Db, firing_id: int, reason: str) -> None:
    """It is not said before a person agrees."""
    db.run(
        "UPDATE firings SET state = 'queued', reason = ?, ended_at = NULL WHERE id = ?",
        (reason[:LONGEST_REASON], firing_id),
    )


def list_waiting(db: Db, task_id: str) -> list[Firing]:
    """Those that wait for a person's decision: they have put nothing into the ledger."""
    return FIRINGS.list(db, "WHERE task_id = ? AND state = 'queued' AND message_id IS NULL ORDER BY id", task_id)


def record_sent(db: Db, firing_id: int, message_id: int | None, now: int) -> None:
    """Somebody agreed, and its delivery is in this transaction."""
    said = "UPDATE firings SET state = 'sent', reason = '', message_id = ?, ended_at = ? WHERE id = ?"
    db.run(said, (message_id, now, firing_id))


def record_denied(db: Db, firing: Firing, reason: str, now: int) -> None:
    """Nobody agreed: the run has failed."""
    failed = "UPDATE firings SET state = 'failed', reason = ?, ended_at = ? WHERE id = ?"
    db.run(failed, (reason[:LONGEST_REASON], now, firing.id))
    tasks.record_failure(db, firing.task_id, reason[:LONGEST_REASON], now)


def cancel_waiting(db: Db, task_id: str, reason: str, now: int) -> None:
    db.run(
        "UPDATE firings SET state = 'cancelled', reason = ?, ended_at = ? WHERE task_id = ? AND state = 'queued'"
        " AND message_id IS NULL",
        (reason[:LONGEST_REASON], now, task_id),
    )


def add_agreed(db: Db, task_id: str, holds: Iterable[tuple[str, str]]) -> None:
    """(folder, rule) of holds that somebody agreed to, for every time of the task."""
    for folder, rule in holds:
        db.run(
            "INSERT INTO task_holds (task_id, folder, rule) VALUES (?, ?, ?)"
            " ON CONFLICT (task_id, folder, rule) DO NOTHING",
            (task_id, folder, rule),
        )


def list_agreed(db: Db, task_id: str) -> frozenset[tuple[str, str]]:
    rows = db.rows("SELECT folder, rule FROM task_holds WHERE task_id = ?", (task_id,))
    return frozenset((str(row[0]), str(row[1])) for row in rows)


def add_allowing(db: Db, task_id: str, request_id: str) -> None:
    """The request by which a person let an agent schedule it as it is."""
    add_agreed(db, task_id, [(_NO_GROUP, request_id)])


def find_allowing(db: Db, task_id: str) -> str:
    """'' if nobody was asked."""
    row = db.row("SELECT rule FROM task_holds WHERE task_id = ? AND folder = ? LIMIT 1", (task_id, _NO_GROUP))
    return str(row[0]) if row else ""


def remove_agreed(db: Db, task_id: str) -> None:
    """It says something else from now on."""
    db.run("DELETE FROM task_holds WHERE task_id = ?", (task_id,))
