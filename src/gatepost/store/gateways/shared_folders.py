"""The folder that all gateways of this store see, by a mark that lies in it; and whether each gateway uses it.

The row `gateway/NAME` has, in place of a mark, how that gateway had its folders at its last start.
"""

from enum import StrEnum

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db

GROUPS = "groups"
GATEWAY = "gateway/"


class GroupPlace(StrEnum):
    LOCAL = "local"  # each group's on one gateway, which alone wakes its sessions
    SHARED = "shared"  # on a filesystem that all of them see


class SharedFolder(Struct, frozen=True):
    name: str
    mark: str
    gateway: str  # that put it there
    since: int  # when a gateway last began to use it


SHARED_FOLDERS = Table("shared_folders", SharedFolder)


def find_or_add(db: Db, mark: str, gateway: str, now: int) -> SharedFolder:
    """The mark that is known; the given one, if none was. It is in use from now on."""
    in_use = "ON CONFLICT (name) DO UPDATE SET since = excluded.since"
    SHARED_FOLDERS.insert(db, in_use, name=GROUPS, mark=mark, gateway=gateway, since=now)
    found = find(db)
    assert found is not None
    return found


def find(db: Db) -> SharedFolder | None:
    return SHARED_FOLDERS.get(db, "WHERE name = ?", GROUPS)


def find_kind(db: Db, gateway: str) -> SharedFolder | None:
    """How a gateway had its folders at its last start, and when that was."""
    return SHARED_FOLDERS.get(db, "WHERE name = ?", f"{GATEWAY}{gateway}")


def is_in_use(db: Db) -> bool:
    """Return True unless a gateway has begun with folders of its own since. All that live have the same kind."""
    known = find(db)
    own = "SELECT 1 FROM shared_folders WHERE name <> ? AND mark = ? AND since > ? LIMIT 1"
    return known is not None and db.row(own, (GROUPS, GroupPlace.LOCAL, known.since)) is None


def set_kind(db: Db, gateway: str, kind: str, now: int) -> None:
    SHARED_FOLDERS.insert(
        db,
        "ON CONFLICT (name) DO UPDATE SET mark = excluded.mark, since = excluded.since",
        name=f"{GATEWAY}{gateway}",
        mark=kind,
        gateway=gateway,
        since=now,
    )


def remove_kind(db: Db, gateway: str) -> None:
    db.run("DELETE FROM shared_folders WHERE name = ?", (f"{GATEWAY}{gateway}",))


def list_kinds(db: Db) -> dict[str, str]:
    """By gateway."""
    return {row[0]: row[1] for row in db.rows("SELECT gateway, mark FROM shared_folders WHERE name <> ?", (GROUPS,))}
