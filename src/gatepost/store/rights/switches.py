"""Switches: what an operator has turned on for the whole instance. A row is a switch that is on."""

from msgspec import Struct

from gatepost.store.port import Db, inline_read

PANIC = "panic"  # everything has ended, and nothing starts


class Switch(Struct, frozen=True):
    name: str
    reason: str
    turned_by: str
    since: int


@inline_read
def get(db: Db, name: str) -> Switch | None:
    """None: it is off."""
    row = db.row("SELECT name, reason, turned_by, since FROM switches WHERE name = ?", (name,))
    return Switch(*row) if row else None


def turn_on(db: Db, name: str, reason: str, by: str, now: int) -> bool:
    """False if it was on: then it stays as it was."""
    return bool(
        db.run(
            "INSERT INTO switches (name, reason, turned_by, since) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING",
            (name, reason, by, now),
        )
    )


def turn_off(db: Db, name: str) -> bool:
    """False if it was off."""
    return bool(db.run("DELETE FROM switches WHERE name = ?", (name,)))
