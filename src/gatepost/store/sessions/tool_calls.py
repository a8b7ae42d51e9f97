"""Calls: which uses of tools an open turn has made. Only whether it read a page is kept when it has ended."""

from msgspec import Struct

from gatepost.store.port import Db, inline_read

FOREIGN = "foreign text"  # no digest of a call


class CallIdentity(Struct, frozen=True):
    """The same for a call that is made again because its answer was lost. `number` counts the equal calls of a turn."""

    turn_id: str
    digest: str
    number: int

    @property
    def key(self) -> str:
        return f"{self.turn_id}/call/{self.digest}/{self.number}"


def record_start(db: Db, call: CallIdentity) -> None:
    """It is about to have its effect. A turn that has ended needs no record: nobody continues it."""
    db.run(
        "INSERT INTO calls (turn_id, digest, number) SELECT id, ?, ? FROM turns WHERE id = ? AND ended_at IS NULL"
        " ON CONFLICT (turn_id, digest, number) DO NOTHING",
        (call.digest, call.number, call.turn_id),
    )


def mark_foreign(db: Db, turn_id: str) -> None:
    """The turn has words of others before it, from a page: what it remembers from here on is no person's word. The
    mark stays with the turn, which may be over already: a call that was held runs and remembers later."""
    db.run(
        "INSERT INTO calls (turn_id, digest, number) SELECT id, ?, 0 FROM turns WHERE id = ?"
        " ON CONFLICT (turn_id, digest, number) DO NOTHING",
        (FOREIGN, turn_id),
    )


def has_foreign(db: Db, turn_id: str) -> bool:
    """Return True if a turn read a page, or was told the outcome of what a turn did that read one."""
    told = db.rows(
        "SELECT m.platform_id FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE i.turn_id = ? AND m.kind = 'system' AND m.platform_id <> ''",
        (turn_id,),
    )
    asked = [str(row[0]).partition(":")[2] for row in told]
    turns = f"SELECT turn_id FROM requests WHERE id IN ({', '.join('?' * len(asked)) or 'NULL'})"
    marked = f"SELECT 1 FROM calls WHERE digest = ? AND (turn_id = ? OR turn_id IN ({turns}))"
    return db.row(marked, (FOREIGN, turn_id, *asked)) is not None


def has_foreign_in_session(db: Db, session_id: str) -> bool:
    """Return True if any turn of a session read a page."""
    marked = "SELECT 1 FROM turns t JOIN calls c ON c.turn_id = t.id WHERE t.session_id = ? AND c.digest = ? LIMIT 1"
    return db.row(marked, (session_id, FOREIGN)) is not None


def record_settled(db: Db, calls: list[CallIdentity]) -> None:
    """The agent has had their answers: an equal call from here on is another one."""
    for call in calls:
        record_start(db, call)
        db.run(
            "UPDATE calls SET settled = 1 WHERE turn_id = ? AND digest = ? AND number = ?",
            (call.turn_id, call.digest, call.number),
        )


@inline_read
def list_for_turn(db: Db, turn_id: str) -> list[tuple[CallIdentity, bool]]:
    """Every call of a turn, and whether it is settled, in the order of their numbers."""
    rows = db.rows(
        "SELECT digest, number, settled FROM calls WHERE turn_id = ? AND digest <> ? ORDER BY digest, number",
        (turn_id, FOREIGN),
    )
    return [(CallIdentity(turn_id, digest, number), bool(settled)) for digest, number, settled in rows]


def remove_for_turn(db: Db, turn_id: str) -> None:
    """All but whether it read a page."""
    db.run("DELETE FROM calls WHERE turn_id = ? AND digest <> ?", (turn_id, FOREIGN))
