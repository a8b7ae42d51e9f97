"""Places of groups, if several gateways share this store and each has folders of its own.

A world belongs to one gateway: a group at the top with all below it. The agent of a group sees the folders of those
below its own, so they lie together.
"""

from msgspec import Struct

from gatepost.store.gateways import gateways, shared_folders
from gatepost.store.gateways.gateways import GatewayState
from gatepost.store.messages.inbox import OPEN
from gatepost.store.port import Db, inline_read

MOST_ROOMS = 200  # that are looked for at once


class AwayWorld(Struct, frozen=True):
    """One whose gateway is not there; '': no gateway has it. `epoch`: of that gateway, which is another after each
    absence."""

    world: str
    gateway: str
    epoch: int


class WaitingRoom(Struct, frozen=True):
    """A room in which somebody waits for an answer."""

    instance: str
    address: str
    thread: str


def get_world(folder: str) -> str:
    return folder.partition("/")[0]


@inline_read
def find_gateway(db: Db, folder: str) -> str:
    """The gateway that has a group's folder; '' if none has it yet."""
    row = db.row("SELECT gateway FROM group_places WHERE world = ?", (get_world(folder),))
    return str(row[0]) if row else ""


@inline_read
def find_runner(db: Db, folder: str) -> str | None:
    """The gateway that may run a group's sessions; '' if any may, None if none may now."""
    row = db.row("SELECT gateway, moving FROM group_places WHERE world = ?", (get_world(folder),))
    return (None if row[1] else str(row[0])) if row else ""


def list_runners(db: Db) -> dict[str, str | None]:
    """The same by world. Those that are not in it are anybody's."""
    return {row[0]: None if row[2] else row[1] for row in db.rows("SELECT world, gateway, moving FROM group_places")}


def claim(db: Db, folder: str, gateway: str, now: int) -> str:
    """The gateway that has a group's folder: this one, if none had it yet."""
    found = find_gateway(db, folder)
    if found:
        return found
    db.run(
        "INSERT INTO group_places (world, gateway, since) VALUES (?, ?, ?) ON CONFLICT (world) DO NOTHING",
        (get_world(folder), gateway, now),
    )
    return find_gateway(db, folder)


def claim_for_home(db: Db, home: str, gateway: str, now: int) -> list[str]:
    """Give a gateway the worlds that its home had under another name; return those names. The files are in the home,
    whatever its machine is called. Leave a name alone that lives: its home is a copy of this one, or the other way."""
    taken = [
        each for each in gateways.list_earlier(db, home, gateway) if each.state is GatewayState.GONE or each.until < now
    ]
    for each in taken:
        gateways.end_life(db, each.name, each.epoch)
        db.run("UPDATE group_places SET gateway = ? WHERE gateway = ?", (gateway, each.name))
        for column in ("source", "target"):
            db.run(f"UPDATE group_moves SET {column} = ? WHERE {column} = ? AND ended_at IS NULL", (gateway, each.name))
    return [each.name for each in taken]


def list_all(db: Db) -> dict[str, str]:
    """By world, the gateway that has it."""
    return {row[0]: row[1] for row in db.rows("SELECT world, gateway FROM group_places ORDER BY world")}


def list_worlds(db: Db, gateway: str) -> list[str]:
    """Those that lie on a gateway."""
    rows = db.rows("SELECT world FROM group_places WHERE gateway = ? ORDER BY world", (gateway,))
    return [str(row[0]) for row in rows]


def has_groups(db: Db, folder: str) -> bool:
    """Return True if there are any in a group's world."""
    world = get_world(folder)
    return bool(
        db.row("SELECT 1 FROM groups WHERE folder = ? OR (folder > ? AND folder < ?) LIMIT 1", (world, *below(world)))
    )


def remove_unused(db: Db, folder: str) -> None:
    """A group was removed. A world without any lies nowhere."""
    world = get_world(folder)
    db.run(
        "DELETE FROM group_places WHERE world = ?"
        " AND NOT EXISTS (SELECT 1 FROM groups WHERE folder = ? OR (folder > ? AND folder < ?))",
        (world, world, *below(world)),
    )


def list_away(db: Db) -> list[AwayWorld]:
    """Those whose gateway has left, was taken over from, or is forgotten; and those that no gateway has. None, while
    all of them lie in a shared folder."""
    if shared_folders.is_in_use(db):
        return []
    rows = db.rows(
        "SELECT p.world, p.gateway, COALESCE(g.epoch, 0) FROM group_places p LEFT JOIN gateways g ON g.name = p.gateway"
        " WHERE g.name IS NULL OR g.state = ? ORDER BY p.world",
        (GatewayState.GONE,),
    )
    lost = db.rows(
        "SELECT g.folder FROM groups g WHERE g.folder NOT LIKE '%/%'"
        " AND NOT EXISTS (SELECT 1 FROM group_places p WHERE p.world = g.folder) ORDER BY g.folder"
    )
    return [*(AwayWorld(*row) for row in rows), *(AwayWorld(row[0], "", 0) for row in lost)]


def render_wait(gateway: str) -> str:
    """Behind the name of a group whose gateway is away; '': no gateway has its files."""
    return f"waits for gateway {gateway}, which is gone" if gateway else "waits for its files, which no gateway has"


def list_waiting_rooms(db: Db, world: str, before: int) -> list[WaitingRoom]:
    """Return the rooms of a world in which a message has waited since before a moment, each with its last active
    thread. A message that nobody said (a task) does not count."""
    rows = db.rows(
        "SELECT m.instance, m.address, m.thread FROM messages m WHERE m.id IN (SELECT MAX(m.id) FROM inbox i"
        f" JOIN messages m ON m.id = i.message_id WHERE i.{OPEN} AND (i.folder = ? OR (i.folder > ? AND i.folder < ?))"
        " AND i.session_id IS NOT NULL AND i.mode IN ('trigger', 'next') AND i.created_at <= ?"
        " GROUP BY m.instance, m.address) ORDER BY m.id LIMIT ?",
        (world, *below(world), before, MOST_ROOMS),
    )
    return [WaitingRoom(*row) for row in rows]


def defer_due(db: Db, world: str, now: int, until: int) -> int:
    """Put off rows that wait for a gateway that is away, so that they are not overdue before `until`."""
    return db.run(
        f"UPDATE inbox SET next_at = ? WHERE {OPEN} AND (folder = ? OR (folder > ? AND folder < ?)) AND next_at <= ?",
        (until, world, *below(world), now),
    )


def below(world: str) -> tuple[str, str]:
    """Return what the folders below it lie between: '0' comes after '/'."""
    return f"{world}/", f"{world}0"
