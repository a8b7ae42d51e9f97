"""Calls: which uses of tools an open turn has made. Kept only while the turn is open."""

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
    mark ends with the turn."""
    record_start(db, CallIdentity(turn_id, FOREIGN, 0))


@inline_read
def has_foreign(db: Db, turn_id: str) -> bool:
    return db.row("SELECT 1 FROM calls WHERE turn_id = ? AND digest = ?", (turn_id, FOREIGN)) is not None


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
    rows = db.rows("SELECT digest, number, settled FROM calls WHERE turn_id = ? ORDER BY digest, number", (turn_id,))
    return [(CallIdentity(turn_id, digest, number), bool(settled)) for digest, number, settled in rows]


def remove_for_turn(db: Db, turn_id: str) -> None:
    db.run("DELETE FROM calls WHERE turn_id = ?", (turn_id,))
