"""Steps: the life of a message as it happened, one row per change. Written in the transaction that made the change."""

from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from gatepost.store.engine.table import MOST_ROWS, render_marks
from gatepost.store.port import Db


class MessageStep(Struct, frozen=True):
    message_id: int
    row_id: int | None
    at: int
    step: str
    detail: str


def add(db: Db, message_id: int, row_id: int | None, at: int, step: str, detail: str = "") -> None:
    db.append("INSERT INTO steps (message_id, row_id, at, step, detail) VALUES", (message_id, row_id, at, step, detail))


def add_queued(db: Db, message_ids: Sequence[int], now: int) -> None:
    """Add the first step of messages that were put into one inbox each. The rows are taken from there: to have their
    ids returned first costs SQLite a table."""
    for at in range(0, len(message_ids), MOST_ROWS):
        some = message_ids[at : at + MOST_ROWS]
        db.run(_render_queued(len(some)), (now, *some))


@cache
def _render_queued(count: int) -> str:
    return (
        "INSERT INTO steps (message_id, row_id, at, step, detail)"
        " SELECT i.message_id, i.id, ?, i.state, i.folder || ' #' || i.seq"
        f" FROM (VALUES {render_marks(count, 1)}) AS v CROSS JOIN inbox i WHERE i.message_id = v.column1"
    )


def list_for_message(db: Db, message_id: int) -> list[MessageStep]:
    db.flush()
    rows = db.rows(
        "SELECT message_id, row_id, at, step, detail FROM steps WHERE message_id = ? ORDER BY id", (message_id,)
    )
    return [MessageStep(*row) for row in rows]
