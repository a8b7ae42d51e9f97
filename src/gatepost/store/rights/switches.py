"""Switches: what somebody has turned on for the whole instance, or for a group. A row is a switch that is on."""

from msgspec import Struct

from gatepost.store.port import Db, inline_read

PANIC = "panic"  # everything has ended, and nothing starts
REST = "rest:"  # with a folder: its agent, and those below it, begin nothing


class Switch(Struct, frozen=True):
    name: str
    reason: str
    turned_by: str
    since: int

    @property
    def folder(self) -> str:
        """Return the folder of the group that rests; '' for a panic."""
        return self.name.removeprefix(REST) if self.name.startswith(REST) else ""


@inline_read
def get(db: Db, name: str) -> Switch | None:
    """None: it is off."""
    row = db.row("SELECT name, reason, turned_by, since FROM switches WHERE name = ?", (name,))
    return Switch(*row) if row else None


@inline_read
def find_stop(db: Db, folder: str) -> Switch | None:
    """Return why a group begins nothing: a panic, or its rest or that of a group above it. None: it works."""
    parts = folder.split("/")
    names = [PANIC, *(name_rest("/".join(parts[:count])) for count in range(len(parts), 0, -1))]
    marks = ", ".join("?" * len(names))
    found = {
        row[0]: Switch(*row)
        for row in db.rows(f"SELECT name, reason, turned_by, since FROM switches WHERE name IN ({marks})", tuple(names))
    }
    return next((found[name] for name in names if name in found), None)


def name_rest(folder: str) -> str:
    return REST + folder


def list_resting(db: Db) -> list[Switch]:
    """Return the switches of the groups that rest."""
    rows = db.rows("SELECT name, reason, turned_by, since FROM switches WHERE name <> ? ORDER BY name", (PANIC,))
    return [Switch(*row) for row in rows if row[0].startswith(REST)]


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
