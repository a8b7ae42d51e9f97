"""The folder that all gateways of this store see, by a mark that lies in it; and whether each gateway uses it.

The row `gateway/NAME` has, in place of a mark, how that gateway had its folders at its last start.
"""

from msgspec import Struct

from gatepost.store.port import Db
from gatepost.store.table import Table

GROUPS = "groups"
GATEWAY = "gateway/"


class SharedFolder(Struct, frozen=True):
    name: str
    mark: str
    gateway: str  # that put it there
    since: int


SHARED_FOLDERS = Table("shared_folders", SharedFolder)


def find_or_add(db: Db, mark: str, gateway: str, now: int) -> SharedFolder:
    """The mark that is known; the given one, if none was."""
    SHARED_FOLDERS.insert(db, "ON CONFLICT (name) DO NOTHING", name=GROUPS, mark=mark, gateway=gateway, since=now)
    found = find(db)
    assert found is not None
    return found


def find(db: Db) -> SharedFolder | None:
    return SHARED_FOLDERS.get(db, "WHERE name = ?", GROUPS)


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
