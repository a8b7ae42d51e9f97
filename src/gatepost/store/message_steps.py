"""Steps: the life of a message as it happened, one row per change. Written in the transaction that made the change."""

from msgspec import Struct

from gatepost.store.port import Db


class MessageStep(Struct, frozen=True):
    message_id: int
    row_id: int | None
    at: int
    step: str
    detail: str


def add(db: Db, message_id: int, row_id: int | None, at: int, step: str, detail: str = "") -> None:
    db.append("INSERT INTO steps (message_id, row_id, at, step, detail) VALUES", (message_id, row_id, at, step, detail))


def list_for_message(db: Db, message_id: int) -> list[MessageStep]:
    db.flush()
    rows = db.rows(
        "SELECT message_id, row_id, at, step, detail FROM steps WHERE message_id = ? ORDER BY id", (message_id,)
    )
    return [MessageStep(*row) for row in rows]
